"""What an agent does not tell is unknown: never `$0.00`, never left out; and a cap on it cannot bind."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import finished
from tests.support.cli_stage import Stage, killed, wait_for_event, worker

TOKENS = {"usage": {"used": 1200, "size": 200000}}
PRICED = {"usage": {"used": 1200, "size": 200000, "cost": 1.2}}
FREE = {"usage": {"used": 1200, "size": 200000, "cost": 0.0}}


def spends(*steps: dict[str, Any]) -> dict[str, Any]:
    return worker(*steps, {"write": {"path": "hello.txt", "text": "hello\n"}})


def known_as(stage: Stage, name: str, *turns: dict[str, Any]) -> str:
    """An agent by this name, which plays these turns."""
    book = stage.book(*turns, name=name).removeprefix("playbook:")
    config = Path(stage.home, "config", "holdfast", "config.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    command = json.dumps(f"{sys.executable} -m holdfast agent playbook {book}")
    config.write_text(f"[agents.{name}]\ncommand = {command}\n", encoding="utf-8")
    return name


def warnings(stage: Stage, run: str) -> list[str]:
    return [d["message"] for d in stage.data(run, "warning.logged") if "caps.dollars" in d["message"]]


@pytest.mark.parametrize(
    ("steps", "dollars", "unpriced", "text"),
    [
        ((TOKENS,), None, 1, "1,200 tokens, cost unknown"),
        ((), None, 1, "0 tokens, cost unknown"),
        ((PRICED,), 1.2, 0, "1,200 tokens, $1.20"),
        ((FREE,), 0.0, 0, "1,200 tokens, $0.00"),
    ],
)
def test_a_cost_that_was_not_told_is_unknown_everywhere(
    stage: Stage, steps: tuple[dict[str, Any], ...], dollars: float | None, unpriced: int, text: str
) -> None:
    run = stage.run("say hello", "--agent", stage.book(spends(*steps)))
    listed = stage.holdfast("ls", "--json").object
    assert (listed["dollars"], listed["unpriced"]) == (dollars, unpriced)
    shown = stage.holdfast("show", run, "--json").object
    assert shown["state"]["budget"]["dollars"] == dollars
    page = stage.holdfast("show", run).out
    assert text in page
    stage.holdfast("export", run, "-o", "page.html")
    cost = Path(stage.project.path, "page.html").read_text(encoding="utf-8").split("<dt>cost</dt><dd>")[1]
    assert cost.startswith(text.rpartition(" ")[2])
    assert ("$0.00" in page) == (dollars == 0)


def test_what_is_known_stands_beside_what_is_not(stage: Stage) -> None:
    plan = stage.tasks("T-1", "T-2")
    agent = stage.book(
        worker(PRICED, {"write": {"path": "one.txt", "text": "1\n"}}, task="T-1"),
        worker(TOKENS, {"write": {"path": "two.txt", "text": "2\n"}}, task="T-2"),
    )
    run = stage.run(plan, "--workflow", "solo", "--agent", agent)
    listed = stage.holdfast("ls", "--json").object
    assert (listed["dollars"], listed["unpriced"]) == (1.2, 1)
    assert "$1.20 + unknown" in stage.holdfast("show", run).out


@pytest.mark.parametrize("more", [(), ("--set", "caps.tokens=100000")])
def test_a_cap_that_cannot_bind_is_told_before_anything_is_spent(stage: Stage, more: tuple[str, ...]) -> None:
    agent = known_as(stage, "gemini", spends(TOKENS))
    outcome = stage.holdfast("run", "say hello", "--agent", agent, "--set", "caps.dollars=5", *more, "--json")
    run = outcome.objects[-1]["run"]
    (warning,) = warnings(stage, run)
    assert warning in outcome.err
    assert "gemini" in warning
    assert "caps.tokens = 100000" in warning if more else "--set caps.tokens=N" in warning
    kinds = [event["type"] for event in stage.events(run)]
    assert kinds.index("warning.logged") < kinds.index("turn.started")


def test_without_such_a_cap_or_with_an_agent_that_tells_nobody_is_warned(stage: Stage) -> None:
    silent = known_as(stage, "gemini", spends(TOKENS))
    assert warnings(stage, stage.run("say hello", "--agent", silent)) == []
    tells = stage.book(spends(PRICED))
    assert warnings(stage, stage.run("say hello again", "--agent", tells, "--set", "caps.dollars=5")) == []


def test_an_agent_that_turns_out_to_tell_nothing_is_told_of_after_its_turn_and_at_the_next_start(stage: Stage) -> None:
    agent = stage.book(spends(TOKENS))
    run = stage.run("say hello", "--agent", agent, "--set", "caps.dollars=5")
    assert len(warnings(stage, run)) == 1
    kinds = [event["type"] for event in stage.events(run)]
    assert kinds.index("warning.logged") > kinds.index("turn.ended")
    stage.holdfast("send", run, "and again")
    outcome = stage.holdfast("resume", run, "--json")
    assert len(warnings(stage, run)) == 2
    assert "caps.dollars = 5" in outcome.err


def test_what_a_probe_measured_is_known_at_the_start(stage: Stage) -> None:
    agent = known_as(stage, "mine", spends(TOKENS))
    stage.holdfast("agents", "probe", agent)
    outcome = stage.holdfast("run", "say hello", "--agent", agent, "--set", "caps.dollars=5", "--json")
    kinds = [event["type"] for event in stage.events(outcome.objects[-1]["run"])]
    assert kinds.index("warning.logged") < kinds.index("turn.started")


def test_a_killed_session_keeps_what_is_known(stage: Stage) -> None:
    agent = stage.book(spends(PRICED, {"hang": {"how": "turn", "seconds": 100, "once": True}}))
    with stage.start("run", "say hello", "--agent", agent) as process:
        wait_for_event(process, "usage.recorded")
        stage.hangs()
        killed(process)
    run = stage.only_run()
    with stage.start("resume", run) as process:
        finished(process)
    listed = stage.holdfast("ls", "--json").object
    assert (listed["dollars"] >= 1.2, listed["unpriced"]) == (True, 0)


def test_the_demo_costs_nothing_and_says_so(stage: Stage) -> None:
    stage.holdfast("demo", "--json", cold=True)
    (run,) = stage.holdfast("ls", "--json").objects
    assert (run["dollars"], run["unpriced"]) == (0.0, 0)
