"""An agent has Holdfast's tools before its first prompt; a turn without them is no word on the work."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_stage import ACCEPT, SUBMIT, Stage, outcome, wait_for_event, worker

TURNS = (
    {"when": "You are the evaluator", "steps": [ACCEPT, {"say": "that was my verdict"}]},
    worker({"write": {"path": "hello.txt", "text": "hello\n"}}, SUBMIT),
)


def late(stage: Stage, name: str, wait_for: str | None = None, **entry: Any) -> list[str]:
    """Settings for an agent that starts its MCP servers in the background, and leaves out those that are not up.

    It starts them only when a file is there.
    """
    path = stage.book(*TURNS, name=name, agent={"connects": {"how": "at_start", "wait_for": wait_for}})
    command = [sys.executable, "-m", "holdfast", "agent", "playbook", path.removeprefix("playbook:")]
    return ["--set", f"agents.{name}={json.dumps({'command': command, **entry})}"]


def test_first_prompt_waits_for_the_tools(stage: Stage) -> None:
    """Their server comes up after the session is open, as on a busy machine."""
    up = Path(stage.folder, "up")
    options = ("--workflow", "loop", stage.tasks("A"), "--agent", "slow", *late(stage, "slow", str(up)))
    with stage.start("run", *options) as process:
        wait_for_event(process, "conversation.attached")
        up.touch()
        outcome(process)
    run = stage.only_run()
    assert stage.states(run) == {"A": "COMPLETE"}
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["end_turn", "end_turn"]
    assert stage.data(run, "warning.logged") == []


def test_turn_without_tools_is_no_verdict_and_uses_up_nothing(stage: Stage) -> None:
    """It is asked again with pauses, by new agents; then the run is parked, and a resume judges the same case."""
    up = Path(stage.folder, "up")
    evaluator = late(stage, "judge", str(up), tools_wait=0.05)
    roles = ("--agent", stage.book(*TURNS), "--set", "roles.evaluator.agent=judge", *evaluator)
    caps = ("--set", "caps.evaluator_calls=1", "--set", "caps.iterations=1")
    ended = stage.ended("run", "--workflow", "loop", stage.tasks("A"), *roles, *caps, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "parked"
    assert "tools" in ended["detail"]
    assert stage.data(run, "verdict.given") == []
    assert stage.states(run) == {"A": "IN_PROGRESS"}
    (judge,) = (d["conversation"] for d in stage.data(run, "conversation.opened") if d["role"] == "evaluator")
    turns = [d["stop_reason"] for d in stage.data(run, "turn.ended") if d["conversation"] == judge]
    assert set(turns) == {"no_tools"}
    assert len([d for d in stage.data(run, "conversation.attached") if d["conversation"] == judge]) == len(turns) > 1
    assert any("judge.tools_wait" in d["message"] for d in stage.data(run, "warning.logged"))

    up.touch()
    assert stage.resume(run, "--set", "agents.judge.tools_wait=600")["ended"] == "all_done"
    (verdict,) = stage.data(run, "verdict.given")
    assert (verdict["accept"], verdict["synthetic"]) == (True, False)
    assert len(stage.data(run, "case.submitted")) == 1


def test_worker_that_needs_no_tools_works_without_them(stage: Stage) -> None:
    never = late(stage, "alone", f"{stage.folder}/never", tools_wait=0.05)
    run = stage.run("say hello", "--agent", "alone", *never)
    assert stage.file(run, "hello.txt") == "hello"
    assert len(stage.data(run, "turn.ended")) == 1


@pytest.mark.parametrize("workflow", ["solo", "loop"])
def test_agent_that_asks_for_tools_when_it_needs_them_is_not_waited_for(stage: Stage, workflow: str) -> None:
    goal = "say hello" if workflow == "solo" else stage.tasks("A")
    run = stage.run("--workflow", workflow, goal, "--agent", stage.book(*TURNS))
    assert stage.data(run, "warning.logged") == []
