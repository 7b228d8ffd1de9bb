"""The first answer to a request stands: no later one is acknowledged, and none is ignored."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Outcome, assert_no_noise, failpoint_environment
from tests.support.cli_stage import Stage, killed, outcome, wait_for_event, worker
from tests.support.pipelines import TEAM, file_of
from tests.support.wait import PATIENCE

GATE = "gate.txt"
ASK: dict[str, Any] = {
    "permission": {
        "title": "tidy up",
        "kind": "execute",
        "input": {"command": "rm -rf build"},
        "allowed": [{"write": {"path": "answer.txt", "text": "allowed\n"}}],
        "rejected": [{"write": {"path": "answer.txt", "text": "rejected\n"}}],
    }
}
AGAIN = {"interrupted": "again"}
REASON = "the build folder holds the release"


def gate(stage: Stage) -> dict[str, object]:
    """A step at which the agent waits, and which leaves nothing in the log."""
    return {"wait_for": {"path": f"{stage.folder}/{GATE}", "timeout": 200}}


def left_asking(stage: Stage) -> str:
    """A run whose agent asked, and in which nothing is alive."""
    with stage.start("run", "tidy up", "--agent", stage.book(worker(ASK), sessions=AGAIN)) as process:
        wait_for_event(process, "permission.requested")
        killed(process)
    return stage.only_run()


def need_of(stage: Stage, run: str) -> dict[str, object]:
    (need,) = stage.holdfast("show", run, "--json").object["needs"]
    assert isinstance(need, dict)
    return need


@pytest.mark.parametrize(("first", "then"), [("approve", "deny"), ("deny", "approve")])
def test_second_answer_is_refused_while_nothing_is_alive(stage: Stage, first: str, then: str) -> None:
    run = left_asking(stage)
    request = stage.holdfast(first, run, "--json").object["request"]
    need = need_of(stage, run)
    assert isinstance(need["answer"], dict)
    assert (need["key"], need["answer"]["allow"], need["answer"]["applied"]) == (request, first == "approve", False)
    for again in ([then, run], [then, run, request], [first, run], [then, run, "--all"]):
        complaint = stage.holdfast(*again, code=5).complaint
        assert {"approve": "already approved by", "deny": "already denied by"}[first] in complaint
    stage.resume(run)
    assert stage.file(run, "answer.txt") == {"approve": "allowed", "deny": "rejected"}[first]
    assert next(one["message"] for one in stage.data(run, "permission.answered")) == f"answer-{request}"
    assert len(stage.data(run, "inbox.consumed")) == 1


def test_second_answer_is_refused_after_the_first_was_applied(stage: Stage) -> None:
    agent = stage.book(worker(ASK, gate(stage)))
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        request = stage.holdfast("approve", run, "--json").object["request"]
        wait_for_event(process, "permission.answered")
        assert "already approved by" in stage.holdfast("deny", run, code=5).complaint
        assert "already approved by" in stage.holdfast("deny", run, request, code=5).complaint
        stage.holdfast("deny", run, "nonsense", code=4)
        Path(stage.folder, GATE).touch()
        outcome(process)
    assert stage.file(run, "answer.txt") == "allowed"
    stage.holdfast("deny", run, code=4)


def both(processes: Sequence["subprocess.Popen[bytes]"]) -> list[Outcome]:
    ended = []
    for process in processes:
        out, err = process.communicate(timeout=PATIENCE)
        ended.append(Outcome(process.returncode, out.decode(), err.decode()))
        assert_no_noise(ended[-1])
    return ended


def test_of_two_answers_at_the_same_instant_one_wins(stage: Stage) -> None:
    run = left_asking(stage)
    answers = ("approve", "deny", "approve", "deny")
    ended = both([stage.holdfast.start(answer, run) for answer in answers])
    assert sorted(one.code for one in ended) == [0, 5, 5, 5], ended
    (winner,) = (answer for answer, one in zip(answers, ended, strict=True) if one.code == 0)
    stage.resume(run)
    assert stage.file(run, "answer.txt") == {"approve": "allowed", "deny": "rejected"}[winner]


@pytest.mark.parametrize("point", ["before", "torn", "after"])
def test_an_answer_whose_command_was_killed_counts_or_leaves_the_request_open(stage: Stage, point: str) -> None:
    """Nobody was told that it was taken; whichever it is, the next answer says."""
    run = left_asking(stage)
    with stage.holdfast.start(
        "approve", run, env=failpoint_environment(stage.folder, f"inbox.append.{point}:1")
    ) as process:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -9
    stands = need_of(stage, run)["answer"] is not None
    stage.holdfast("deny", run, code=5 if stands else 0)
    stage.resume(run)
    assert stage.file(run, "answer.txt") == ("allowed" if stands else "rejected")
    assert stands == (point == "after")


def test_an_answer_that_is_not_offered_is_refused_and_does_not_count(stage: Stage) -> None:
    run = left_asking(stage)
    assert "is not one of the answers" in stage.holdfast("approve", run, "--option", "maybe", code=2).complaint
    assert need_of(stage, run)["answer"] is None
    stage.holdfast("approve", run)


def test_first_answer_to_a_phase_stands(stage: Stage) -> None:
    text = "name: short\nabout: a plan, and its tasks\ncase: true\nphases:\n"
    phases = "- {name: planning, role: planner, approval: true}\n- {name: building, kind: tasks}\n"
    flow = file_of(stage, text + phases, "short.yaml")
    checks = ("--set", "validators.detect=false")
    run = str(stage.ended("run", "a note", "--workflow", flow, "--agent", stage.book(*TEAM), *checks, code=6)["run"])
    stage.holdfast("deny", run, "--reason", "not now")
    answer = need_of(stage, run)["answer"]
    assert isinstance(answer, dict)
    assert (answer["allow"], answer["reason"]) == (False, "not now")
    assert "already denied by" in stage.holdfast("approve", run, code=5).complaint
    assert stage.resume(run, code=1)["ended"] == "failed"
    assert [one["reason"] for one in stage.data(run, "phase.failed")] == ["denied: not now"]
    stage.resume(run, "--on-issue", "fix", code=6)  # it asks again, in the same round: that is another request
    stage.holdfast("approve", run)
    stage.resume(run)
    assert [one["approved"] for one in stage.data(run, "approval.answered")] == [False, True]
    assert len({one["message"] for one in stage.data(run, "approval.answered")}) == 2


# Why


def told_of(stage: Stage, run: str) -> list[str]:
    return [prompt for prompt in stage.prompts(run) if REASON in prompt]


def test_reason_of_a_denial_reaches_the_agent_with_its_next_prompt(stage: Stage) -> None:
    agent = stage.book(worker(ASK), {"when": REASON, "steps": [{"write": {"path": "heard.txt", "text": "yes\n"}}]})
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("deny", run, "--reason", REASON)
        outcome(process)
    assert (stage.file(run, "answer.txt"), stage.file(run, "heard.txt")) == ("rejected", "yes")
    (prompt,) = told_of(stage, run)
    assert "rm -rf build" in prompt
    (answered,) = stage.data(run, "permission.answered")
    assert answered["reason"] == REASON
    stage.holdfast("resume", run, code=4)


@pytest.mark.parametrize("at", ["permission.answered", "turn.started"])
def test_reason_survives_a_kill_and_is_told_in_one_turn_that_ends(stage: Stage, at: str) -> None:
    held = {"permission": {**ASK["permission"], "rejected": [gate(stage), *ASK["permission"]["rejected"]]}}
    hears = {"when": REASON, "steps": [{"write": {"path": "heard.txt", "text": "yes\n"}}]}
    agent = stage.book(hears, worker(held), sessions=AGAIN)
    if at == "turn.started":
        Path(stage.folder, GATE).touch()
    with stage.start("run", "tidy up", "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("deny", run, "--reason", REASON)
        wait_for_event(process, at)
        killed(process)
    Path(stage.folder, GATE).touch()
    stage.resume(run)
    assert stage.file(run, "heard.txt") == "yes"
    ended = {one["turn"] for one in stage.data(run, "turn.ended")}
    carried = [one["turn"] for one in stage.data(run, "message.recorded") if REASON in one["text"]]
    assert sum(turn in ended for turn in carried) == 1, stage.prompts(run)
    stage.holdfast("resume", run, code=4)


def test_reason_reaches_an_evaluator_too(stage: Stage) -> None:
    asks = {**ASK["permission"], "allowed": [], "rejected": [{"say": "well"}]}
    judge = {"when": "You are the evaluator", "steps": [{"permission": asks}]}
    accept = {"when": REASON, "steps": [{"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}}}]}
    case = {"summary": "x", "criteria": [{"criterion": "a", "met": True, "evidence": "b"}]}
    works = worker({"write": {"path": "a.txt", "text": "x\n"}}, {"mcp": {"tool": "submit_case", "arguments": case}})
    agent = stage.book(accept, judge, works)
    with stage.start("run", "--workflow", "loop", stage.tasks("A"), "--agent", agent) as process:
        wait_for_event(process, "permission.requested")
        run = stage.only_run()
        stage.holdfast("deny", run, "--reason", REASON)
        outcome(process)
    assert stage.states(run) == {"A": "COMPLETE"}
    (prompt,) = stage.prompts(run, "evaluator")[1:]
    assert REASON in prompt
    assert all(REASON not in one for one in stage.prompts(run, "worker"))


def test_changes_are_for_a_phase_and_reasons_for_an_agent(stage: Stage) -> None:
    run = left_asking(stage)
    assert "--reason" in stage.holdfast("deny", run, "--changes", "x", code=2).complaint
    assert need_of(stage, run)["answer"] is None
