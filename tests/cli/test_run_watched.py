"""`watch` brings back what was cut off, gives up on what keeps dying, and leaves alone what should be."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_stage import HANG, Stage, alive, heard, wait_for_event, worker
from tests.support.wait import until

WROTE = {"write": {"path": "one.txt", "text": "1\n"}}
QUICK = ("--set", "resume.back_off=0")


@contextmanager
def watching(stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    with stage.start("watch") as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def hangs_of(stage: Stage) -> int:
    """How often an agent came to a hang that it has `once`."""
    return len([*Path(stage.folder).rglob("once/*")])


def cut_off(stage: Stage, *options: str, **how: Any) -> str:
    """A run whose detached runner was killed while its agent hung."""
    before = hangs_of(stage)
    hang = {"hang": {"how": "turn", "seconds": 3600, **how}}
    agent = stage.book(worker(WROTE, hang, {"say": "done"}), sessions={"interrupted": "again"})
    begun = stage.holdfast("run", "go on", "--agent", agent, "--detach", *QUICK, *options, "--json").object
    with stage.start("logs", "-f", begun["run"]) as log:
        wait_for_event(log, "tool.returned")
        if "once" in how:  # killed before, it would hang after the resume
            asyncio.run(until(lambda: hangs_of(stage) > before))
        os.kill(begun["pid"], signal.SIGKILL)
        stage.holdfast("wait", begun["run"], code=130)
        log.kill()
        log.communicate()
    return str(begun["run"])


def test_a_runner_that_was_killed_is_back(stage: Stage) -> None:
    run = cut_off(stage, once=True)
    with watching(stage) as process:
        assert heard(process, lambda told: told["run"] == run)["told"].startswith("resumed")
        assert stage.holdfast("wait", run).out == "done\n"
    assert stage.file(run, "one.txt") == "1"
    assert alive(stage) == []


@pytest.mark.torture
def test_one_that_may_not_be_brought_back_is_left_alone(stage: Stage) -> None:
    left = cut_off(stage, "--set", "resume.auto=false", once="first")
    count = len(stage.events(left))
    back = cut_off(stage, once="second")
    with watching(stage) as process:
        assert heard(process, lambda _: True)["run"] == back
        stage.holdfast("wait", back)
    assert len(stage.events(left)) == count


@pytest.mark.torture
def test_one_that_dies_without_getting_further_is_parked(stage: Stage) -> None:
    run = cut_off(stage)
    with watching(stage) as process:
        for _ in range(2):
            said = heard(process, lambda told: told["run"] == run)["told"]
            assert said.startswith("resumed"), said
            with stage.start("logs", "-f", run) as log:
                wait_for_event(log, "turn.started")
                os.kill(int(said.split("pid ")[1].rstrip(")")), signal.SIGKILL)
                log.kill()
                log.communicate()
        assert heard(process, lambda told: told["run"] == run)["told"].startswith("parked")
    assert "parked" in stage.holdfast("ls").out
    end = stage.data(run, "session.end")[-1]
    assert "died 3 times" in end["summary"]


@pytest.mark.torture
def test_one_that_was_stopped_stays_stopped(stage: Stage) -> None:
    agent = stage.book(worker(WROTE, HANG))
    stopped = stage.holdfast("run", "go on", "--agent", agent, "--detach", "--json").object["run"]
    stage.holdfast("stop", stopped)
    count = len(stage.events(stopped))
    back = cut_off(stage, once="second")
    with watching(stage) as process:
        assert heard(process, lambda _: True)["run"] == back
        stage.holdfast("wait", back)
    assert len(stage.events(stopped)) == count


@pytest.mark.torture
def test_many_runs_at_rest_take_one_watcher_of_the_kernel(stage: Stage) -> None:
    runs = [stage.holdfast("plan", "rest", "--json").object["run"] for _ in range(3)]
    with watching(stage) as process:
        asyncio.run(until(lambda: sum(_watched(process.pid)) > len(runs)))  # each log, and the folder of all
        assert len(_watched(process.pid)) <= 2


def _watched(pid: int) -> list[int]:
    """For each inotify instance of a process, how many files it watches."""
    told = []
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == "anon_inode:inotify":
                    told.append(Path(f"/proc/{pid}/fdinfo/{fd}").read_text(encoding="utf-8").count("inotify wd:"))
    return told
