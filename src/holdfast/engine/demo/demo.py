"""The whole of it, rehearsed: a small repository, agents that are scripts, and two murders.

The runner is a process of its own, as a user's is. It is killed with SIGKILL, and so is one agent in the middle of a
turn: when, the play says. Everything else is what would happen anyway.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.conversation import ToolCalled
from holdfast.core.log.codec import CODEC, Line, Unfit
from holdfast.core.state import RunState
from holdfast.engine.commands.create import Wanted, prepare
from holdfast.engine.queries.follow import Follower
from holdfast.engine.queries.logs import Filter, LogLine, read_log
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.errors import DecisionNeeded, HoldfastError
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process.env_markers import RUN_MARK, marked
from holdfast.leaf.process.own_program import own_program

OURSELVES = own_program()
_README = "# Kelp\n\nA small library about texts, written by agents that were killed on the way.\n"
_FIRST_TEST = (
    "import unittest\n\n\nclass Empty(unittest.TestCase):\n    def test_that_there_is_one(self):\n        pass\n"
)


class Play(NamedTuple):
    """What is played. `tasks` is the list, when it is known beforehand; else the goal is all that there is.

    In the call `hard` an agent is killed, and the runner at the first event that is its `cue`. With `gate`, it stops
    once for a person to approve what was made.
    """

    title: str
    goal: str
    workflow: str
    script: dict[str, Any]
    merges: int
    hard: str = ""
    cue: Callable[[Event], bool] = lambda _: False
    moment: str = ""
    tasks: list[dict[str, Any]] | None = None
    flags: Mapping[str, Any] = {}
    gate: bool = False


class Stage(NamedTuple):
    """Where it is played, and what."""

    play: Play
    folder: str
    repo: str
    tasks: str
    playbook: str


class Scene(NamedTuple):
    """Something to tell: an event and what it happened to, or a death (`killed` says whose)."""

    event: Event | None = None
    state: RunState | None = None
    killed: str | None = None
    pid: int | None = None


class Proof(NamedTuple):
    whole: bool
    events: int
    sessions: int
    merged: dict[str, int]
    alive: int
    branches: list[str]
    graph: str
    merges: int

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing done twice, nothing left behind."""
        once = set(self.merged.values()) == {1} and len(self.merged) == self.merges
        return self.whole and once and not self.alive and len(self.branches) == 1


def folder_for(home: str) -> str:
    """Where a play stays, to be looked at."""
    return os.path.join(os.path.abspath(home), "demo", new_run_id("kelp"))


def set_up(folder: str, play: Play, repo: str | None = None) -> Stage:
    """A repository with one commit, a task list, and the agents' script."""
    stage = Stage(
        play,
        folder,
        repo or os.path.join(folder, "kelp"),
        os.path.join(folder, "tasks.json"),
        os.path.join(folder, "agents.json"),
    )
    os.makedirs(folder, exist_ok=True)
    os.makedirs(os.path.join(stage.repo, "tests"))
    _write(os.path.join(stage.repo, "README.md"), _README)
    _write(os.path.join(stage.repo, "tests", "__init__.py"), "")
    _write(os.path.join(stage.repo, "tests", "test_nothing.py"), _FIRST_TEST)
    if play.tasks is not None:
        _write(stage.tasks, _pretty({"overview": play.goal, "tasks": play.tasks}))
    _write(stage.playbook, _pretty(_free(play.script)))
    who = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", stage.repo, *arguments], check=True, capture_output=True)
    return stage


async def prepared(home: str, stage: Stage) -> str:
    tests = [sys.executable, "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."]
    flags = {
        "workflow": stage.play.workflow,
        "agent": f"playbook:{stage.playbook}",
        "parallel": 3,
        "validators.detect": False,
        "validators.commands.tests.command": tests,
        **stage.play.flags,
    }
    goal = stage.tasks if stage.play.tasks is not None else stage.play.goal
    return await prepare(home, Wanted(goal, stage.repo, slug="kelp", flags=flags))


async def played(home: str, run_id: str, play: Play, *, murderous: bool) -> AsyncGenerator[Scene, None]:
    """One sitting of the runner, as it happens. A murderous one ends by the hand of whoever watches."""
    follower = await Follower.of(home, run_id, None)
    runner = started(home, run_id)
    try:
        async with aclosing(_events(follower, runner)) as events:
            async for event, state in events:
                yield Scene(event, state)
                if murderous and isinstance(event, ToolCalled) and event.tool == play.hard:
                    pid = state.conversations[event.conversation].pid
                    if pid is not None:
                        os.kill(pid, signal.SIGKILL)
                        yield Scene(killed="agent", pid=pid)
                if murderous and play.cue(event):
                    runner.kill()
                    yield Scene(killed="runner", pid=runner.pid)
                    return
    finally:
        if runner.poll() is None:
            runner.kill()
        runner.wait()
    words = (runner.stderr.read() if runner.stderr is not None else b"").decode(errors="replace")
    if runner.returncode and not (play.gate and runner.returncode == DecisionNeeded.exit_code):
        raise HoldfastError(f"the runner of the demo ended with code {runner.returncode}: {' '.join(words.split())}")


def started(
    home: str, run_id: str, program: Sequence[str] = OURSELVES, environment: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.Popen[bytes]":
    """A sitting of the runner, as a process of its own; what it says is in its stderr."""
    return subprocess.Popen(
        [*program, "resume", run_id, "--quiet"],
        env={**os.environ, "HOLDFAST_HOME": os.path.abspath(home), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


async def _events(
    follower: Follower, runner: "subprocess.Popen[bytes]"
) -> AsyncGenerator[tuple[Event, RunState], None]:
    """What the runner writes, until it is gone and all of it was told."""
    gone = asyncio.ensure_future(asyncio.to_thread(runner.wait))
    moves = follower.moves()
    try:
        async with aclosing(moves):
            while True:
                step = asyncio.ensure_future(anext(moves))
                await asyncio.wait({step, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not step.done():
                    step.cancel()
                    with suppress(asyncio.CancelledError):
                        await step
                    break
                for event in _read(step.result().lines):
                    yield event, follower.state
        async for moved in follower.rest():
            for event in _read(moved.lines):
                yield event, follower.state
    finally:
        if runner.poll() is None:
            runner.kill()
        await gone


def _read(lines: Sequence[LogLine]) -> Iterator[Event]:
    for line in lines:
        if isinstance(line.line, Line):
            with suppress(Unfit):
                event = CODEC.event(line.line)
                if event is not None:
                    yield event


async def proven(home: str, run_id: str, stage: Stage) -> Proof:
    """Looked up afterwards, in the log and in git."""
    verdict = await verify_run(home, run_id)
    merged: Counter[str] = Counter()
    async for line in read_log(home, run_id, Filter((BranchMerged.type,))):
        merged.update(event.name.rpartition("/")[2] for event in _read([line]) if isinstance(event, BranchMerged))
    branches = git(stage.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/holdfast").split()
    return Proof(
        verdict.whole,
        verdict.events,
        verdict.sessions,
        dict(merged),
        len(marked(RUN_MARK, run_id)),
        branches,
        git(stage.repo, "log", "--graph", "--format=%s", f"holdfast/{run_id}/main"),
        stage.play.merges,
    )


def git(repo: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _free(script: dict[str, Any]) -> dict[str, Any]:
    """Scripted agents cost nothing, and say so at the beginning of each turn."""
    nothing = {"usage": {"used": 0, "size": 0, "cost": 0.0}}
    return {**script, "turns": [{**turn, "steps": [nothing, *turn["steps"]]} for turn in script["turns"]]}


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
