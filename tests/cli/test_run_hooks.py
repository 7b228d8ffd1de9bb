"""Commands of the user are told what happened, and cannot hold the run up."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.stage import HELLO, Stage, alive, killed, told
from tests.support.waiting import until


def test_each_gets_its_event_as_json(stage: Stage) -> None:
    log = f"{stage.folder}/hooks"
    command = json.dumps([["sh", "-c", f"cat >> {log}; echo >> {log}"]])
    hooks = ("session_start", "task_done", "session_end", "notify")
    flags = [part for hook in hooks for part in ("--set", f"hooks.{hook}={command}")]
    run = stage.run("say hello", "--agent", stage.book(HELLO), *flags)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    assert [line["hook"] for line in lines] == list(hooks)
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


@pytest.mark.torture
def test_one_that_hangs_is_ended(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO), "--set", 'hooks.session_start=[["sleep", "200"]]')
    (ran,) = stage.data(run, "hook.ran")
    assert "did not answer within" in ran["problem"]
    assert alive(stage) == []
