"""Runs in a home, made by the store itself, each at a time of its own."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

TEN = "2026-02-14T10:00:00.000Z"
ELEVEN = "2026-02-14T11:00:00.000Z"

DONE = SessionEnd(reason="all_done")


def said(text: str, speaker: str = "agent") -> MessageRecorded:
    return MessageRecorded(conversation="c", speaker=speaker, text=text)


def tasks(count: int) -> list[Event]:
    """So many tasks, each started and completed."""
    names = [str(number) for number in range(1, count + 1)]
    return [event for name in names for event in (TaskStarted(task_id=name), TaskCompleted(task_id=name))]


def make_run(
    home: str, run_id: str, *events: Event, goal: str = "Add OAuth login", at: str = TEN, repo: str | None = None
) -> str:
    """A run with one session: its start, these events, and nothing after them."""
    asyncio.run(_make(home, run_id, [RunCreated(run_id=run_id, goal=goal, repo=repo), *events], at))
    return run_id


def resume_run(home: str, run_id: str, *events: Event, at: str = ELEVEN) -> None:
    """One more session on a run."""
    asyncio.run(_sit(home, run_id, SessionStart(command="resume"), events, at))


def log_of(home: str, run_id: str) -> Path:
    return Path(run_folder(home, run_id), LOG)


@contextmanager
def unnoticed(path: Path) -> Iterator[None]:
    """Whatever is done to the file, its time stays as it was. Keep its size, and nobody sees that it changed."""
    status = path.stat()
    yield
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_ino == status.st_ino


async def _make(home: str, run_id: str, events: Sequence[Event], at: str) -> None:
    await FileStore(home).create(run_id)
    await _sit(home, run_id, SessionStart(command="run"), events, at)


async def _sit(home: str, run_id: str, start: SessionStart, events: Sequence[Event], at: str) -> None:
    async with open_run(FileStore(home), run_id, feature=run_id[:-7], clock=lambda: at) as run:
        await run.begin_session(start)
        await run.append(*events)
