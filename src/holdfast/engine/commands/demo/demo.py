"""Runs a demo: a small repository, scripted agents, and two SIGKILLs.

The runner is a process of its own, like a user's. It is killed with SIGKILL, and so is one agent in the middle of a
turn, at the points that the demo names. Everything else is the real program.
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
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.state import RunState
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower
from holdfast.engine.queries.logs import LogFilter, LogLine, read_log
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.errors import DecisionNeeded, HoldfastError
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.own_program import holdfast_command

HOLDFAST_COMMAND = holdfast_command()
_README = "# Kelp\n\nA small library about texts, written by agents that were killed on the way.\n"
_FIRST_TEST = (
    "import unittest\n\n\nclass Empty(unittest.TestCase):\n    def test_that_there_is_one(self):\n        pass\n"
)


class Demo(NamedTuple):
    """What is run. `tasks` is the task list, if known in advance; else there is only the goal.

    An agent is killed in the call `hard`, and the runner at the first event that is its `cue`. With `gate`, the run
    stops once for a person's approval.
    """

    title: str
    goal: str
    workflow: str
    script: dict[str, Any]
    expected_merges: int
    killed_call: str = ""
    is_kill_point: Callable[[Event], bool] = lambda _: False
    kill_description: str = ""
    tasks: list[dict[str, Any]] | None = None
    flags: Mapping[str, Any] = {}
    has_approval: bool = False


class DemoFolder(NamedTuple):
    """Where a demo runs, and which one."""

    demo: Demo
    folder: str
    repo: str
    tasks_file: str
    playbook_file: str


class DemoEvent(NamedTuple):
    """Something to show: an event and what it happened to, or a death (`killed` names the victim)."""

    event: Event | None = None
    state: RunState | None = None
    killed: str | None = None
    pid: int | None = None


class Proof(NamedTuple):
    whole: bool
    events: int
    sessions: int
    merged: dict[str, int]
    processes_left: int
    branches: list[str]
    graph: str
    expected_merges: int

    @property
    def holds(self) -> bool:
        """Return whether nothing was lost, done twice or left behind."""
        merged_once = set(self.merged.values()) == {1} and len(self.merged) == self.expected_merges
        return self.whole and merged_once and not self.processes_left and len(self.branches) == 1


def new_demo_folder(home: Home) -> str:
    """Create a folder in which a demo can be inspected afterwards."""
    return home.file("demo", new_run_id("kelp"))


def create_demo_folder(folder: str, demo: Demo, repo: str | None = None) -> DemoFolder:
    """Create a repository with one commit, a task list, and the agents' script."""
    stage = DemoFolder(
        demo,
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
    if demo.tasks is not None:
        _write(stage.tasks_file, _pretty_json({"overview": demo.goal, "tasks": demo.tasks}))
    _write(stage.playbook_file, _pretty_json(_with_zero_cost(demo.script)))
    identity = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", stage.repo, *arguments], check=True, capture_output=True)
    return stage


async def create_demo_run(home: Home, demo_folder: DemoFolder) -> str:
    tests = [sys.executable, "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."]
    flags = {
        "workflow": demo_folder.demo.workflow,
        "agent": f"playbook:{demo_folder.playbook_file}",
        "parallel": 3,
        "validators.detect": False,
        "validators.commands.tests.command": tests,
        **demo_folder.demo.flags,
    }
    goal = demo_folder.tasks_file if demo_folder.demo.tasks is not None else demo_folder.demo.goal
    return await prepare_run(home, RunRequest(goal, demo_folder.repo, slug="kelp", flags=flags))


async def run_demo_session(home: Home, run_id: str, demo: Demo, *, with_kills: bool) -> AsyncGenerator[DemoEvent, None]:
    """Yield one session of the runner as it happens. With kills, the caller kills the runner."""
    follower = await Follower.create(home, run_id, None)
    runner = start_runner(home, run_id)
    try:
        async with aclosing(_follow_events(follower, runner)) as events:
            async for event, state in events:
                yield DemoEvent(event, state)
                if with_kills and isinstance(event, ToolCalled) and event.tool == demo.killed_call:
                    pid = state.conversations[event.conversation].pid
                    if pid is not None:
                        os.kill(pid, signal.SIGKILL)
                        yield DemoEvent(killed="agent", pid=pid)
                if with_kills and demo.is_kill_point(event):
                    runner.kill()
                    yield DemoEvent(killed="runner", pid=runner.pid)
                    return
    finally:
        if runner.poll() is None:
            runner.kill()
        runner.wait()
    output = (runner.stderr.read() if runner.stderr is not None else b"").decode(errors="replace")
    if runner.returncode and not (demo.has_approval and runner.returncode == DecisionNeeded.exit_code):
        raise HoldfastError(f"the runner of the demo ended with code {runner.returncode}: {' '.join(output.split())}")


def start_runner(
    home: Home,
    run_id: str,
    program: Sequence[str] = HOLDFAST_COMMAND,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> "subprocess.Popen[bytes]":
    """Start a session of the runner as a process of its own; its output goes to stderr."""
    return subprocess.Popen(
        [*program, "resume", run_id, "--quiet"],
        env={**home.environment, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


async def _follow_events(
    follower: Follower, runner: "subprocess.Popen[bytes]"
) -> AsyncGenerator[tuple[Event, RunState], None]:
    """Yield what the runner writes, until it has ended and everything was yielded."""
    exited = asyncio.ensure_future(asyncio.to_thread(runner.wait))
    moves = follower.updates()
    try:
        async with aclosing(moves):
            while True:
                step = asyncio.ensure_future(anext(moves))
                await asyncio.wait({step, exited}, return_when=asyncio.FIRST_COMPLETED)
                if not step.done():
                    step.cancel()
                    with suppress(asyncio.CancelledError):
                        await step
                    break
                for event in _decode_events(step.result().lines):
                    yield event, follower.state
        async for update in follower.pending_updates():
            for event in _decode_events(update.lines):
                yield event, follower.state
    finally:
        if runner.poll() is None:
            runner.kill()
        await exited


def _decode_events(lines: Sequence[LogLine]) -> Iterator[Event]:
    for line in lines:
        if isinstance(line.line, Line):
            with suppress(InvalidEventData):
                event = CODEC.event(line.line)
                if event is not None:
                    yield event


async def collect_proof(home: Home, run_id: str, demo_folder: DemoFolder) -> Proof:
    """Collect the results afterwards from the log and from git."""
    verdict = await verify_run(home, run_id)
    merged: Counter[str] = Counter()
    async for line in read_log(home, run_id, LogFilter((BranchMerged.type,))):
        merged.update(
            event.name.rpartition("/")[2] for event in _decode_events([line]) if isinstance(event, BranchMerged)
        )
    branches = run_git(demo_folder.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/holdfast").split()
    return Proof(
        verdict.is_intact,
        verdict.events,
        verdict.sessions,
        dict(merged),
        len(marked_processes(RUN_MARK, run_id)),
        branches,
        run_git(demo_folder.repo, "log", "--graph", "--format=%s", f"holdfast/{run_id}/main"),
        demo_folder.demo.expected_merges,
    )


def run_git(repo: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _with_zero_cost(script: dict[str, Any]) -> dict[str, Any]:
    """Scripted agents cost nothing, and report that at the start of each turn."""
    no_usage = {"usage": {"used": 0, "size": 0, "cost": 0.0}}
    return {**script, "turns": [{**turn, "steps": [no_usage, *turn["steps"]]} for turn in script["turns"]]}


def _pretty_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
