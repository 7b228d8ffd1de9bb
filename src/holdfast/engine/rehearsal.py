"""The whole of it, rehearsed: a small repository, five tasks, agents that are scripts, and two murders.

The runner is a process of its own, as a user's is. It is killed with SIGKILL in the middle of a merge, and one agent
in the middle of a turn. Everything else is what would happen anyway.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import msgspec

from holdfast.core.codec import CODEC, Line, Unfit
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.conversation import ToolCalled
from holdfast.core.events.effect import EffectIntended
from holdfast.core.state import RunState
from holdfast.engine.following import Follower
from holdfast.engine.planning import Wanted, prepare
from holdfast.engine.service import Filter, LogLine, read_log, verify_run
from holdfast.git.effects import MergeTask
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process import RUN_MARK, marked

HARD = "Count the words of a very long text"  # the call in which an agent is killed

_README = "# Kelp\n\nA small library about texts, written by agents that were killed on the way.\n"
_FIRST_TEST = (
    "import unittest\n\n\nclass Empty(unittest.TestCase):\n    def test_that_there_is_one(self):\n        pass\n"
)


class Stage(NamedTuple):
    """Where it is played."""

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

    @property
    def holds(self) -> bool:
        """Nothing lost, nothing done twice, nothing left behind."""
        once = set(self.merged.values()) == {1} and len(self.merged) == len(_TASKS)
        return self.whole and once and not self.alive and len(self.branches) == 1


def set_up(home: str) -> Stage:
    """A repository with one commit, a task list, and the agents' script, in a folder that stays."""
    folder = os.path.join(os.path.abspath(home), "demo", new_run_id("kelp"))
    stage = Stage(
        folder, os.path.join(folder, "kelp"), os.path.join(folder, "tasks.json"), os.path.join(folder, "agents.json")
    )
    os.makedirs(os.path.join(stage.repo, "tests"))
    _write(os.path.join(stage.repo, "README.md"), _README)
    _write(os.path.join(stage.repo, "tests", "__init__.py"), "")
    _write(os.path.join(stage.repo, "tests", "test_nothing.py"), _FIRST_TEST)
    _write(stage.tasks, _pretty({"overview": "Kelp: a small library about texts", "tasks": _TASKS}))
    _write(stage.playbook, _pretty(_script()))
    who = ("-c", "user.name=You", "-c", "user.email=you@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", stage.repo, *arguments], check=True, capture_output=True)
    return stage


async def prepared(home: str, stage: Stage) -> str:
    tests = [sys.executable, "-m", "unittest", "discover", "-q", "-s", "tests", "-t", "."]
    flags = {
        "workflow": "waves",
        "agent": f"playbook:{stage.playbook}",
        "parallel": 3,
        "validators.detect": False,
        "validators.commands.tests.command": tests,
    }
    return await prepare(home, Wanted(stage.tasks, stage.repo, slug="kelp", flags=flags))


async def played(home: str, run_id: str, *, murderous: bool) -> AsyncGenerator[Scene, None]:
    """One sitting of the runner, as it happens. A murderous one ends by the hand of whoever watches."""
    follower = await Follower.of(home, run_id, None)
    runner = subprocess.Popen(  # noqa: ASYNC220 - ourselves
        [sys.executable, "-m", "holdfast", "resume", run_id, "--quiet"],
        env={**os.environ, "HOLDFAST_HOME": os.path.abspath(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with aclosing(_events(follower, runner)) as events:
            async for event, state in events:
                yield Scene(event, state)
                if murderous and isinstance(event, ToolCalled) and event.tool == HARD:
                    pid = state.conversations[event.conversation].pid
                    if pid is not None:
                        os.kill(pid, signal.SIGKILL)
                        yield Scene(killed="agent", pid=pid)
                if murderous and isinstance(event, EffectIntended) and event.kind == MergeTask.kind:
                    runner.kill()
                    yield Scene(killed="runner", pid=runner.pid)
                    return
    finally:
        if runner.poll() is None:
            runner.kill()
        runner.wait()
    words = (runner.stderr.read() if runner.stderr is not None else b"").decode(errors="replace")
    if runner.returncode:
        raise HoldfastError(f"the runner of the demo ended with code {runner.returncode}: {' '.join(words.split())}")


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
    branches = _git(stage.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/holdfast").split()
    return Proof(
        verdict.whole,
        verdict.events,
        verdict.sessions,
        dict(merged),
        len(marked(RUN_MARK, run_id)),
        branches,
        _git(stage.repo, "log", "--graph", "--format=%s", f"holdfast/{run_id}/main"),
    )


def _git(repo: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


# The play

_TASKS = [
    {"id": "T-1", "title": "Split a text into words", "acceptance_criteria": ["words(text) gives them in order"]},
    {"id": "T-2", "title": "Count words", "acceptance_criteria": ["counted(text) gives each word's number"]},
    {"id": "T-3", "title": "Say how to contribute", "acceptance_criteria": ["CONTRIBUTING.md tells how to run tests"]},
    {
        "id": "T-4",
        "title": "The most frequent words",
        "depends_on": ["T-1", "T-2"],
        "acceptance_criteria": ["top(text, n) gives the n most frequent"],
    },
    {
        "id": "T-5",
        "title": "A command for it",
        "depends_on": ["T-3", "T-4"],
        "acceptance_criteria": ["python -m kelp FILE prints them"],
    },
]

_FILES = {
    "T-1": {
        "kelp/__init__.py": "",
        "kelp/words.py": 'import re\n\n\ndef words(text):\n    return re.findall(r"\\w+", text.lower())\n',
        "tests/test_words.py": "import unittest\n\nfrom kelp.words import words\n\n\nclass Words(unittest.TestCase):\n"
        '    def test_in_order(self):\n        self.assertEqual(words("Hold fast, hold!"), ["hold", "fast", "hold"])\n',
    },
    "T-2": {
        "kelp/counting.py": "from collections import Counter\n\n\ndef counted(text):\n"
        "    return Counter(text.lower().split())\n",
        "tests/test_counting.py": "import unittest\n\nfrom kelp.counting import counted\n\n\n"
        "class Counted(unittest.TestCase):\n"
        '    def test_each(self):\n        self.assertEqual(counted("a b a")["a"], 2)\n',
    },
    "T-3": {"CONTRIBUTING.md": "# Contributing\n\nRun the tests: `python -m unittest discover -s tests -t .`\n"},
    "T-4": {
        "kelp/top.py": "from collections import Counter\n\nfrom kelp.words import words\n\n\ndef top(text, n):\n"
        "    return Counter(words(text)).most_common(n)\n",
        "tests/test_top.py": "import unittest\n\nfrom kelp.top import top\n\n\nclass Top(unittest.TestCase):\n"
        '    def test_first(self):\n        self.assertEqual(top("kelp, kelp, rock", 1), [("kelp", 2)])\n',
    },
    "T-5": {
        "kelp/__main__.py": "import sys\n\nfrom kelp.top import top\n\nwith open(sys.argv[1]) as file:\n"
        "    for word, number in top(file.read(), 10):\n        print(number, word)\n",
    },
}


def _script() -> dict[str, Any]:
    """What the agents do. One of them is busy for long: it is killed then, and goes on when it is back."""
    workers = [
        {"when": f"interrupted before it ended(?s:.)*task `{task['id']}`", "steps": _work(task)} for task in _TASKS
    ]
    busy = {
        "when": "You are the worker on task `T-2`",
        "steps": [{"say": "This is a long one."}, {"tool": {"id": "hard", "title": HARD}}, {"sleep": 600}],
    }
    first = [{"when": f"worker on task `{task['id']}`", "steps": _work(task)} for task in _TASKS]
    concern = {
        "accept": False,
        "category": "weak_test",
        "concern": "top() is only tested with n = 1.",
        "evidence": "tests/test_top.py has one assertion.",
        "next_step": "Test n larger than the number of words.",
    }
    more = '\n    def test_more_than_there_are(self):\n        self.assertEqual(len(top("kelp rock", 9)), 2)\n'
    again = {
        "when": "Task `T-4` is not done",
        "steps": [{"append": {"path": "tests/test_top.py", "text": more}}, *_case(_TASKS[3])],
    }
    judges = [
        {"when": "evaluator of task `T-4`(?s:.)*Prior iterations", "steps": [_mcp("submit_verdict", {"accept": True})]},
        {"when": "evaluator of task `T-4`", "steps": [_mcp("submit_verdict", concern)]},
        {"when": "You are the evaluator", "steps": [_mcp("submit_verdict", {"accept": True})]},
    ]
    return {"turns": [*workers, *judges, again, busy, *first]}


def _work(task: dict[str, Any]) -> list[dict[str, Any]]:
    writes = [{"write": {"path": path, "text": text}} for path, text in _FILES[task["id"]].items()]
    return [{"say": f"{task['title']}: I begin."}, *writes, *_case(task)]


def _case(task: dict[str, Any]) -> list[dict[str, Any]]:
    criteria = [{"criterion": one, "met": True, "evidence": "its test"} for one in task["acceptance_criteria"]]
    return [_mcp("submit_case", {"summary": f"{task['title']}, with tests.", "criteria": criteria})]


def _mcp(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"mcp": {"tool": tool, "arguments": arguments}}
