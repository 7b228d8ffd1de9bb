"""A long run that nobody attends: limits, outages, dying agents, killed runners, and `watch` brings it to its end."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from typing import Any

import pytest

from holdfast.core.text.moment import parse_moment
from tests.cli.test_run_watched import watching
from tests.support.cli_stage import Stage, heard
from tests.support.wait import until

TASKS = int(os.environ.get("HOLDFAST_WEEK_TASKS", "120"))
KILLS = TASKS // 12
SEED = 7
LIMITED = {"error": {"code": -32000, "message": "You have hit your usage limit, try again in 2 seconds."}}
AWAY = {"error": {"code": -32603, "message": "Internal error", "data": {"details": "connect ECONNREFUSED 127.0.0.1:9"}}}
DIES = {"crash": {"how": "kill", "once": True}}


def troubled(number: int) -> list[dict[str, Any]]:
    """What goes wrong in a task, once, before its agent does it."""
    name = f"You are the worker on task `T-{number}`"
    wrong = {0: LIMITED, 3: AWAY, 5: DIES}.get(number % 9)
    return [{"when": name, "once": True, "steps": [wrong]}] if wrong is not None else []


@pytest.mark.torture
def test_a_run_of_many_tasks_ends_by_itself(stage: Stage) -> None:
    turns = [turn for number in range(TASKS) for turn in troubled(number)]
    turns.append({"when": ".", "steps": [{"run": {"command": "date >> work.txt", "shown": False}}, {"say": "done"}]})
    agent = stage.book(*turns, sessions={"interrupted": "again"})
    tasks = stage.tasks(*(f"T-{number}" for number in range(TASKS)))
    options = (
        "--set",
        "quota.wait=0",
        "--set",
        "outage.back_off=1",
        "--set",
        "outage.wait=0",
        "--set",
        "resume.back_off=0",
    )
    made = stage.holdfast("plan", tasks, "--workflow", "solo", "--agent", agent, *options, "--json").object
    run, chance = str(made["run"]), random.Random(SEED)
    began = stage.holdfast("resume", run, "--detach", "--json").object
    kill(began["pid"])
    with watching(stage) as watch:
        for _ in range(KILLS):
            started = heard(watch, lambda told: told["run"] == run and told["told"].startswith("resumed (pid "))
            asyncio.run(asyncio.sleep(chance.random() * 3))
            kill(int(started["told"].removeprefix("resumed (pid ").rstrip(")")))
        asyncio.run(until(lambda: stage.holdfast("ls", "--json").object["status"] == "done"))
    assert set(stage.states(run).values()) == {"COMPLETE"}
    no_prompt_was_sent_before_a_reset(stage.events(run))
    assert stage.data(run, "quota.hit")
    assert stage.data(run, "outage.met")
    assert stage.holdfast("verify", run)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it ended before
        os.kill(pid, signal.SIGKILL)


def no_prompt_was_sent_before_a_reset(events: list[dict[str, Any]]) -> None:
    """The agent is the same in all tasks, so a limit holds for each."""
    limited_until = 0.0
    for event in events:
        at = parse_moment(event["ts"]) or 0.0
        if event["type"] in ("quota.hit", "outage.met"):
            limited_until = max(limited_until, parse_moment(event["data"]["until"]) or 0.0)
        elif event["type"] == "turn.started":
            assert at >= limited_until - 0.01, event
