"""Budgets of a task, a day and a repository hold during a turn, over all runs of a home, and whoever is killed."""

import asyncio
import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.commands.supervise import supervise_runs
from holdfast.engine.home import Home
from tests.cli.test_run_limits import SetClock
from tests.support.cli_stage import EVALUATE, HANG, SUBMIT, Stage, worker

WROTE = {"write": {"path": "a.txt", "text": "a\n"}}
SPENT = {"usage": {"used": 1200, "size": 200_000, "cost": 0.75}}
TOKENS = {"usage": {"used": 1200, "size": 200_000}}


def spending(stage: Stage) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(stage.home, "spending.json").read_text(encoding="utf-8"))
    return data


def endless(stage: Stage, usage: dict[str, Any] = SPENT) -> str:
    return stage.book(worker(WROTE, usage, HANG), name="endless")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("budgets.day_dollars=0.5", "day_budget"),
        ("budgets.day_tokens=1000", "day_budget"),
        ("budgets.repository_dollars=0.5", "repository_budget"),
        ("budgets.repository_tokens=1000", "repository_budget"),
    ],
)
def test_a_budget_ends_the_turn_that_spends_it(stage: Stage, setting: str, reason: str) -> None:
    ended = stage.ended("run", "go on", "--agent", endless(stage), "--set", setting, code=1)
    run = str(ended["run"])
    assert ended["ended"] == reason
    assert f"{setting.replace('=', ' = ')} is spent" in ended["detail"]
    assert [d["stop_reason"] for d in stage.data(run, "turn.ended")] == ["cancelled"]
    other = stage.ended("run", "something else", "--agent", endless(stage), "--set", setting, code=1)
    assert other["ended"] == reason
    assert stage.data(str(other["run"]), "turn.started") == []  # another run spent it
    listed = {each["id"]: each for each in stage.holdfast("ls", "--json").objects}
    assert listed[run]["status"] == reason
    assert (listed[run]["resumes_at"] is not None) == (reason == "day_budget")


def test_each_usage_is_counted_once_whoever_is_killed(stage: Stage) -> None:
    limit = ("--set", "budgets.day_tokens=1000000")
    total = 0
    for number, point in enumerate(("before:1", "torn:1", "after:1", "before:2", "torn:2", "after:2")):
        passes = Path(stage.folder, f"passes-{number}")
        passes.touch()
        env = {"HOLDFAST_CRASH": f"spending.save.{point}", "HOLDFAST_CRASH_FILE": os.fspath(passes)}
        agent = stage.book(
            worker(WROTE, SPENT, {"sleep": 1.5}, SPENT), name=f"book-{number}", sessions={"interrupted": "again"}
        )
        with stage.start("run", "write a", "--agent", agent, "--name", f"r{number}", *limit, env=env) as process:
            process.communicate()
        assert process.returncode in (0, -9)
        run = next(
            each["id"] for each in stage.holdfast("ls", "--json").objects if each["id"].startswith(f"r{number}-")
        )
        if process.returncode:
            stage.resume(str(run))
        total += sum(d["input_tokens"] + d["output_tokens"] for d in stage.data(str(run), "usage.recorded"))
        (repository,) = spending(stage)["repositories"].values()
        assert repository["tokens"] == total
        assert sum(day["tokens"] for day in spending(stage)["days"].values()) == total


def test_watch_resumes_a_run_when_the_day_turns(stage: Stage) -> None:
    ended = stage.ended("run", "go on", "--agent", endless(stage), "--set", "budgets.day_dollars=0.5", code=1)
    run = str(ended["run"])
    (listed,) = stage.holdfast("ls", "--json").objects
    midnight = dt.datetime.fromisoformat(listed["resumes_at"])
    assert midnight.astimezone().time() == dt.time()
    at = midnight.timestamp()
    clock = SetClock(at - 7200, at - 90_000, at - 1, at + 1)  # set back on the way
    told: list[str] = []

    async def watch_until_resumed() -> None:
        resumed = asyncio.Event()

        def report(_: str, text: str) -> None:
            told.append(text)
            if text.startswith("resumed"):
                resumed.set()

        supervision = asyncio.ensure_future(supervise_runs(Home(stage.home), report, clock))
        await asyncio.wait({supervision, asyncio.ensure_future(resumed.wait())}, return_when=asyncio.FIRST_COMPLETED)
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)

    asyncio.run(watch_until_resumed())
    assert told[0].startswith("waits for the budget of the next day")
    assert told[1].startswith("resumed")
    stage.holdfast("wait", run, code=1)  # its runner has the real clock: the day has not turned
    assert len(stage.data(run, "turn.started")) == 1


@pytest.mark.parametrize("setting", ["budgets.task_dollars=0.5", "budgets.task_tokens=1000"])
def test_a_task_that_spends_its_budget_fails_and_the_others_go_on(stage: Stage, setting: str) -> None:
    cheap = worker(WROTE, SUBMIT, task="B")
    agent = stage.book(worker(SPENT, HANG, task="A"), cheap, EVALUATE, name="both")
    options = ("--workflow", "waves", "--agent", agent, "--set", "validators.detect=false", "--set", setting)
    run = stage.run(*options, stage.tasks("A", "B"), code=1)
    assert [d["error"] for d in stage.data(run, "task.failed")][:1] == ["task_budget"]
    assert stage.states(run) == {"A": "FAILED", "B": "COMPLETE"}
    assert "the budget of the task is spent" in stage.holdfast("show", run).out


def test_tokens_alone_are_priced_by_the_table_and_marked_as_an_estimate(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, TOKENS), name="tokens")
    options = ("--model", "my-model", "--set", 'prices.my-model={"input":1000,"output":2000}')
    run = stage.run("write a", "--agent", agent, *options)
    (usage,) = stage.data(run, "usage.recorded")
    assert (usage["estimate"], usage["priced"], usage["dollars"]) == (1.2, False, 0.0)
    listed = stage.holdfast("ls", "--json").object
    assert (listed["dollars"], listed["estimate"], listed["unpriced"]) == (None, 1.2, 0)
    assert "1,200 tokens, ~$1.20 (estimate)" in stage.holdfast("show", run).out


def test_an_estimate_counts_against_the_cap_of_a_run(stage: Stage) -> None:
    options = ("--model", "my-model", "--set", 'prices.my-model={"input":1000,"output":2000}')
    ended = stage.ended("run", "go", "--agent", endless(stage, TOKENS), *options, "--budget", "0.5", code=1)
    assert ended["ended"] == "cost_cap"


def test_without_a_price_the_cost_stays_unknown(stage: Stage) -> None:
    run = stage.run("write a", "--agent", stage.book(worker(WROTE, TOKENS)), "--model", "nobody-knows")
    assert stage.data(run, "usage.recorded")[0]["estimate"] is None
    assert "cost unknown" in stage.holdfast("show", run).out


def test_damaged_sums_stop_the_run_and_are_not_overwritten(stage: Stage) -> None:
    os.makedirs(stage.home, exist_ok=True)
    Path(stage.home, "spending.json").write_text("{", encoding="ascii")
    ended = stage.holdfast("run", "go", "--agent", endless(stage), "--set", "budgets.day_dollars=5", code=1)
    assert "spending.json is damaged" in ended.err
    assert Path(stage.home, "spending.json").read_text(encoding="ascii") == "{"
