"""Agents that answer their prompts with errors: that is no word on the work."""

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, killed, wait_for_event, worker
from tests.support.pipelines import PLANNER, WRITE, file_of

FULL = {"error": {"code": -32000, "message": "the model gave an unusable answer", "data": {"kind": "rejected"}}}
LINE = "the agent refused session/prompt: the model gave an unusable answer"
REFUSING = {"when": ".", "steps": [FULL]}
GOOD = worker({"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT)
KILL_SERVER = """
for pid in $(grep -hE '^(Pid|PPid):' /proc/[0-9]*/status 2>/dev/null | awk -v agent=$PPID '
    $1 == "Pid:" {pid = $2} $1 == "PPid:" && $2 == agent {print pid}'); do
    [ $pid != $$ ] && kill -9 $pid && echo killed
done
true
"""
PLANNED = """\
name: planned
about: a plan and its tasks
case: true
phases:
- {name: planning, role: planner}
- {name: building, kind: tasks}
"""


def refusing(when: str, times: int) -> list[dict[str, Any]]:
    """Turns that end in an error, for so many prompts of a session."""
    return [{"when": when, "once": True, "steps": [FULL]}] * times


def ends(stage: Stage, run: str) -> list[str]:
    return [d["stop_reason"] for d in stage.data(run, "turn.ended")]


@pytest.mark.parametrize("workflow", [pytest.param("solo", marks=pytest.mark.torture), "loop"])
def test_a_worker_that_answers_with_errors_parks_its_task_and_uses_up_none_of_its_attempts(
    stage: Stage, workflow: str
) -> None:
    agent = stage.book(REFUSING)
    ended = stage.ended("run", "--workflow", workflow, stage.tasks("A"), "--agent", agent, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "parked"
    assert ended["detail"].startswith(f"A: {LINE}")
    assert ends(stage, run) == ["refused"] * 3
    times = [datetime.fromisoformat(event["ts"]) for event in stage.events(run, "turn.ended")]
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert pauses[0] >= 0.5
    assert pauses[1] >= 1.0
    errors = stage.events(run, "error.encountered")
    assert [(e["agent"], e["data"]["attempts"], e["data"]["resolved"]) for e in errors] == [
        ("worker of A", 1, False),
        ("worker of A", 2, False),
        ("worker of A", 3, False),
    ]
    assert all(e["data"]["error"].startswith(f"A: {LINE}") for e in errors)

    stage.book(GOOD, EVALUATE)
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.data(run, "iteration.ended") == stage.data(run, "task.failed") == []
    assert [d["iteration"] for d in stage.data(run, "case.submitted")] == [1]
    assert stage.file(run, "a.txt") == "a"


def test_nobody_is_asked_how_to_go_on_after_an_error(stage: Stage) -> None:
    """Not even where a person is to say so after an interruption."""
    asking = ("--set", "after_interruption=ask")
    agent = stage.book(REFUSING)
    ended = stage.ended("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, *asking, code=1)
    run = str(ended["run"])
    assert (ended["ended"], LINE in ended["detail"]) == ("parked", True)
    stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}))
    assert stage.resume(run)["ended"] == "all_done"
    assert ends(stage, run) == [*["refused"] * 3, "end_turn"]
    assert stage.file(run, "a.txt") == "a"


def test_an_evaluator_that_answers_with_errors_has_given_no_verdict(stage: Stage) -> None:
    agent = stage.book(*refusing("You are the evaluator", 2), EVALUATE, GOOD)
    run = stage.run("--workflow", "loop", stage.tasks("A"), "--agent", agent)
    assert ends(stage, run).count("refused") == 2
    assert [(d["accept"], d["synthetic"]) for d in stage.data(run, "verdict.given")] == [(True, False)]
    assert len(stage.data(run, "conversation.opened")) == 2  # it is the same evaluator that is asked again
    errors = stage.events(run, "error.encountered")
    assert [(e["agent"], e["data"]["resolved"]) for e in errors] == [
        ("evaluator of A", False),
        ("evaluator of A", False),
        ("evaluator of A", True),
    ]


def test_an_agent_of_a_phase_that_answers_with_errors_is_not_given_up(stage: Stage) -> None:
    flow = file_of(stage, PLANNED, "planned.yaml")
    agent = stage.book(REFUSING)
    options = ("--workflow", flow, "--agent", agent, "--set", "validators.detect=false")
    ended = stage.ended("run", "a note", *options, code=1)
    run = str(ended["run"])
    assert (ended["ended"], LINE in ended["detail"]) == ("parked", True)
    assert stage.data(run, "phase.failed") == []
    stage.book(PLANNER, worker(WRITE, SUBMIT))
    assert stage.resume(run)["ended"] == "all_done"


def test_a_kill_between_two_tries_costs_nothing_nor_does_an_error_lose_what_was_said(stage: Stage) -> None:
    agent = stage.book(REFUSING)
    with stage.start("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent) as process:
        wait_for_event(process, "turn.ended", stop_reason="refused")
        killed(process)
    run = stage.only_run()
    stage.holdfast("send", run, "in green, please")
    in_green = {"when": "in green", "steps": [{"write": {"path": "a.txt", "text": "green\n"}}]}
    stage.book(*refusing("in green", 2), in_green, worker({"write": {"path": "a.txt", "text": "a\n"}}))
    assert stage.resume(run)["ended"] == "all_done"
    assert ends(stage, run) == ["refused", "refused", "refused", "end_turn"]
    assert stage.data(run, "iteration.ended") == []
    assert stage.file(run, "a.txt") == "green"


def test_a_case_that_came_before_the_error_counts(stage: Stage) -> None:
    agent = stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}, SUBMIT, FULL), EVALUATE)
    run = stage.run("--workflow", "loop", stage.tasks("A"), "--agent", agent)
    assert ends(stage, run) == ["refused", "end_turn"]
    assert stage.data(run, "error.encountered") == []


def test_three_killed_mcp_servers_do_not_end_the_session(stage: Stage) -> None:
    """Nor do they cost the task an iteration."""
    progress = {"mcp": {"tool": "report_progress", "arguments": {"text": "round {{n}}"}}}
    killing = [{"mcp_tools": {}}, {"run": KILL_SERVER}, {"say": "{{result}}"}, progress]
    write = {"write": {"path": "a.txt", "text": "a\n"}}
    agent = stage.book(EVALUATE, {"when": ".", "steps": [write, {"repeat": {"times": 3, "steps": killing}}, SUBMIT]})
    ended = stage.ended("run", "--workflow", "loop", stage.tasks("A"), "--agent", agent, cold=True)
    run = str(ended["run"])
    assert ended["ended"] == "all_done"
    said = [d["text"].strip() for d in stage.data(run, "message.recorded") if d["speaker"] == "agent"]
    assert said == ["killed"] * 3
    assert [d["text"] for d in stage.data(run, "progress.reported")] == ["round 1", "round 2", "round 3"]
    assert {d["iteration"] for d in stage.data(run, "case.submitted")} == {1}
    assert stage.data(run, "error.encountered") == stage.data(run, "iteration.ended") == []
    assert stage.file(run, "a.txt") == "a"
