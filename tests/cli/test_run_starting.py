"""Killed around the start of what works for a run: nothing of it is lost, nothing of it works on unseen."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import HELLO, Stage, alive
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.wait import until

SIDES = pytest.mark.parametrize("side", ["before", "after"])
DENIED = 5


@SIDES
def test_killed_around_a_terminal_of_its_agent(stage: Stage, side: str) -> None:
    """Should it be there, it is ended before the run goes on; the agent has it started again."""
    again = Path(stage.folder, "again")
    command = f"[ -e {again} ] && exec echo again > again.txt; exec sleep 100"
    agent = stage.book(otherwise=[{"run": {"command": command, "via": "client"}}, {"say": "done"}])
    env = failpoint_environment(stage.folder, f"terminal.create.{side}:1")
    stage.holdfast("run", "wait a little", "--agent", agent, env=env, code=KILLED)
    again.touch()
    run = stage.only_run()
    stage.resume(run)
    assert stage.file(run, "again.txt") == "again"
    assert alive(stage) == []


@SIDES
def test_killed_around_the_note_where_its_containers_are(stage: Stage, side: str) -> None:
    """Once it is noted, a container may be there; with an engine that cannot be asked, nobody goes on beside it."""
    runtime = {"kind": "container", "image": "x", "socket": os.path.join(stage.folder, "nowhere.sock")}
    contained = ("--set", f"runtime={json.dumps(runtime)}")
    env = failpoint_environment(stage.folder, f"container.note.{side}:1")
    agent = stage.book(HELLO)
    stage.holdfast("run", "say hello", "--agent", agent, *contained, env=env, code=KILLED)
    run = stage.only_run()
    alone = ("--set", "runtime.kind=local")
    if side == "after":
        complaint = stage.holdfast("resume", run, *alone, code=DENIED).err
        assert f"agents of {run} may be at work in containers" in complaint
        os.unlink(os.path.join(stage.home_of(run), "agents", "engines.json"))
    stage.resume(run, *alone)
    assert stage.file(run, "hello.txt") == "hello"
    assert alive(stage) == []


@SIDES
def test_killed_around_the_start_of_a_runner_of_its_own(stage: Stage, side: str) -> None:
    """The runner needs nobody; where it was not started, the run is there and can be resumed."""
    env = failpoint_environment(stage.folder, f"runner.detach.{side}:1")
    stage.holdfast("run", "say hello", "--agent", stage.book(HELLO), "--detach", env=env, code=KILLED)
    run = stage.only_run()
    if side == "before":
        assert alive(stage) == []
        stage.resume(run)
    else:
        asyncio.run(until(lambda: len(stage.events(run, "session.start")) > 1))
    assert stage.holdfast("wait", run).out == "done\n"
    assert stage.file(run, "hello.txt") == "hello"
    assert [d["command"] for d in stage.data(run, "session.start")] == ["plan", "run"]
    assert alive(stage) == []
