"""Commands of the user are told what happened, and cannot hold the run up."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.program import doom
from tests.support.doom.nursery import KILLED
from tests.support.stage import HELLO, Stage, alive, killed, told
from tests.support.waiting import until

START, DONE, END, NOTIFY = HOOKS = ("session_start", "task_done", "session_end", "notify")
NOTHING_TO_DO = 4


def listening(stage: Stage) -> list[str]:
    """Hooks that write down what they are told."""
    log = f"{stage.folder}/hooks"
    command = json.dumps([["sh", "-c", f"cat >> {log}; echo >> {log}"]])
    return [part for hook in HOOKS for part in ("--set", f"hooks.{hook}={command}")]


def heard(stage: Stage) -> list[dict[str, str]]:
    log = Path(stage.folder, "hooks")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_each_gets_its_event_as_json(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), *listening(stage))
    lines = heard(stage)
    assert [line["hook"] for line in lines] == list(HOOKS)
    assert {line["run"] for line in lines} == {run}
    assert lines[1]["task"] == "T-1"
    assert [d["exit_code"] for d in stage.data(run, "hook.ran")] == [0, 0, 0, 0]


def test_one_that_is_not_there_is_told_and_passed_over(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--set", 'hooks.task_done=[["/no/such/hook"]]')
    (ran,) = stage.data(run, "hook.ran")
    assert "cannot be run" in ran["problem"]


def test_one_that_outlives_its_runner_is_ended_before_the_run_goes_on(stage: Stage) -> None:
    begun = Path(stage.folder, "begun")
    hook = json.dumps([["sh", "-c", f"[ -e {begun} ] && exit; touch {begun}; exec sleep 100"]])
    with stage.start("run", "say hello", "--agent", stage.book(HELLO), "--set", f"hooks.post_edit={hook}") as process:
        told(process, "tool.returned")
        asyncio.run(until(begun.exists))
        killed(process)
    stage.resume(stage.only_run())
    assert alive(stage) == []


@pytest.mark.parametrize(
    ("at", "first", "then"),
    [
        ("before:1", [], [START, DONE, END, NOTIFY]),
        ("after:1", [START], [START, DONE, END, NOTIFY]),
        pytest.param("before:2", [START], [START, END, NOTIFY], marks=pytest.mark.torture),
        ("after:2", [START, DONE], [START, END, NOTIFY]),
        ("before:3", [START, DONE], []),
        pytest.param("after:3", [START, DONE, END], [], marks=pytest.mark.torture),
        pytest.param("before:4", [START, DONE, END], [], marks=pytest.mark.torture),
        ("after:4", [START, DONE, END, NOTIFY], []),
    ],
)
def test_none_is_told_of_a_thing_twice_whenever_the_runner_dies(
    stage: Stage, at: str, first: list[str], then: list[str]
) -> None:
    env = doom(stage.folder, f"hook.run.{at}")
    stage.holdfast("run", "say hello", "--agent", stage.book(HELLO), *listening(stage), env=env, code=KILLED)
    assert [line["hook"] for line in heard(stage)] == first
    stage.holdfast("resume", stage.only_run(), code=0 if then else NOTHING_TO_DO)
    assert [line["hook"] for line in heard(stage)] == first + then
    assert alive(stage) == []


def test_what_tells_of_the_end_goes_on_when_the_runner_dies_though_the_run_goes_on_too(stage: Stage) -> None:
    """It kills the runner, which waits for it."""
    begun, gate, said = (Path(stage.folder, name) for name in ("begun", "gate", "said"))
    waiting = f"until [ -e {gate} ]; do sleep 0.05; done; echo over > {said}"
    hook = json.dumps([["sh", "-c", f"[ -e {begun} ] && exit; touch {begun}; kill -9 $PPID; {waiting}"]])
    book = stage.book(HELLO)
    stage.holdfast("run", "say hello", "--agent", book, "--set", f"hooks.notify={hook}", code=KILLED)
    run = stage.only_run()
    stage.holdfast("send", run, "and say it again")
    stage.resume(run)
    gate.touch()
    asyncio.run(until(said.exists))
    assert len(stage.data(run, "hook.ran")) == 1, "that of the second sitting"
    assert alive(stage) == []


@pytest.mark.torture
def test_one_that_hangs_is_ended(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--set", 'hooks.session_start=[["sleep", "200"]]')
    (ran,) = stage.data(run, "hook.ran")
    assert "did not answer within" in ran["problem"]
    assert alive(stage) == []
