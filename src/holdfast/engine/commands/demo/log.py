"""Demonstrates the journal: writers killed in mid-stream, a torn end, and a log that holds all it acknowledged.

The writer is this module as a program. It prints each acknowledged event on stdout, only after the append returned.
What the parent has read when it kills the writer must be in the log afterwards.

`kill_writers` and `resume_log_run` block and run event loops of their own: a caller with an event loop uses a thread.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.core.end_reason import EndReason
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.log.codec import CODEC, Line, parse_lines
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.leaf.ids import new_run_id
from holdfast.leaf.process.own_program import holdfast_command
from holdfast.store.run import open_run

INTERRUPTED_LOG = os.path.join(os.path.dirname(__file__), "interrupted.jsonl")

WRITER_COMMAND = holdfast_command(module="holdfast.engine.commands.demo.log")
_PRODUCERS = ("north", "south", "east", "west")
_TORN_LINE = b'{"v":1,"ts":"2026-02-14T10:08:00.000Z","sid":"the-power-w'


class WriterKill(NamedTuple):
    """One killed writer: what was acknowledged to it, and how much of that was in the log."""

    pid: int
    acknowledged: int
    found: int
    lost: int


class LogRepair(NamedTuple):
    bytes: int
    kept_as: str


async def create_log_run(home: Home) -> str:
    """Create a run with a plan of one task per producer."""
    run_id = new_run_id("survivor")
    store = home.store
    await store.create(run_id)
    async with open_run(store, run_id, feature="survivor") as run:
        await run.begin_session(
            SessionStart(command="run", feature="survivor", pid=os.getpid()),
            RunCreated(run_id=run_id, goal="Survive four kills and a torn tail", workflow="demo"),
            PlanCreated(tasks=[PlannedTask(id=name, summary=f"Write from the {name}") for name in _PRODUCERS]),
            *(TaskStarted(task_id=name) for name in _PRODUCERS),
        )
    return run_id


def kill_writers(
    home: Home, run_id: str, rounds: int = 4, lines_before_kill: int = 250, writer: Sequence[str] = WRITER_COMMAND
) -> Iterator[WriterKill]:
    """Start a writer at full speed and kill it with SIGKILL, repeatedly on the same log."""
    promised: Counter[str] = Counter()
    for _ in range(rounds):
        with _writer_process(*writer, home.path, run_id) as process:
            assert process.stdout is not None, "it was asked for"
            assert process.stderr is not None, "it was asked for"
            acknowledged = 0
            for line in process.stdout:
                promised[line.strip()] += 1
                acknowledged += 1
                if acknowledged == lines_before_kill:
                    process.kill()
            last_words = process.stderr.read()
        if process.returncode != -signal.SIGKILL:
            raise StorageFailed(f"a writer stopped before it was killed: {last_words}")
        found = asyncio.run(_count_messages(home, run_id))
        yield WriterKill(process.pid, acknowledged, found.total(), (promised - found).total())


@contextmanager
def _writer_process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that writes until it is killed, at the latest when the block ends."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def tear_log_end(home: Home, run_id: str) -> int:
    """Leave half a line at the log's end, as a power cut may. Returns its length."""
    with open(home.log_path(run_id), "ab") as log:
        log.write(_TORN_LINE)
    return len(_TORN_LINE)


def resume_log_run(home: Home, run_id: str) -> LogRepair:
    """Open the run again, which sets the torn end aside, and finish it."""
    kept_as = asyncio.run(_finish(home, run_id))
    return LogRepair(os.path.getsize(os.path.join(home.folder(run_id), kept_as)), kept_as)


async def _finish(home: Home, run_id: str) -> str:
    async with open_run(home.store, run_id) as run:
        known = set(run.state.repairs)
        await run.begin_session(SessionStart(command="resume", feature="survivor", pid=os.getpid()))
        kept_as = next(name for name in run.state.repairs if name not in known)
        await run.append(*(TaskCompleted(task_id=name) for name in _PRODUCERS))
        await run.append(Checkpoint(label="survived", plan_step="done"))
        await run.append(SessionEnd(reason=EndReason.ALL_DONE, summary="Nothing that was acknowledged was lost"))
    return kept_as


async def _count_messages(home: Home, run_id: str) -> Counter[str]:
    """Count the producers' messages in the log."""
    found: Counter[str] = Counter()
    async for batch in home.store.log(run_id).read():
        for line in parse_lines(batch.data):
            if isinstance(line, Line) and line.type == MessageRecorded.type:
                event = CODEC.event(line)
                assert isinstance(event, MessageRecorded), "the type says so"
                found[event.text] += 1
    return found


async def _write(home: Home, run_id: str) -> None:
    async with open_run(home.store, run_id) as run:
        await run.begin_session(SessionStart(command="resume", feature="survivor", pid=os.getpid()))
        session = len(run.state.sessions)

        async def produce(name: str) -> None:
            number = 0
            while True:
                text = f"line {number} from the {name}, session {session}"
                await run.append(MessageRecorded(conversation=name, speaker="agent", text=text))
                os.write(sys.stdout.fileno(), f"{text}\n".encode())
                number += 1

        await asyncio.gather(*map(produce, _PRODUCERS))


if __name__ == "__main__":
    try:
        _, home_path, run = sys.argv
        asyncio.run(_write(Home(home_path), run))
    except HoldfastError as error:
        sys.exit(str(error))
