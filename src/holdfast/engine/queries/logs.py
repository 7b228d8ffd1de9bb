"""Queries on runs in the home, and on logs that other tools wrote."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from holdfast.core.decide.analysis import (
    Analysis,
    InterruptionDetector,
    analyze,
    interrupted_sessions,
    session_lineage,
    session_to_resume,
)
from holdfast.core.end_reason import EndReason
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import CODEC, Line, Malformed, parse
from holdfast.core.state import RunState
from holdfast.engine.home import LOG, Home, log_file
from holdfast.engine.queries.catalog import condition_of
from holdfast.engine.queries.runs import status_of
from holdfast.leaf.errors import BadInput
from holdfast.store.base import START, Batch, Holder, Log, Position
from holdfast.store.fold import fold_log
from holdfast.store.live_log import live_log
from holdfast.store.log_file import open_foreign_log, open_log_file, require_readable, torn_last_line


class RunView(NamedTuple):
    """A run's current state."""

    run_id: str
    status: str
    folder: str
    state: RunState
    analysis: Analysis
    holder: Holder | None


class LogLine(NamedTuple):
    """One line of a log, raw and parsed. `cursor` is the position after it."""

    cursor: Position
    raw: bytes
    line: Line | Malformed


class LogFilter(NamedTuple):
    """Which lines to show: `types` are names or patterns such as `task.*`; an empty tuple means all."""

    types: tuple[str, ...] = ()

    def matches(self, line: Line | Malformed) -> bool:
        if not self.types:
            return True
        return isinstance(line, Line) and any(fnmatchcase(line.type, pattern) for pattern in self.types)


ALL_EVENTS = LogFilter()


# A run in the home


async def view_run(home: Home, run_id: str) -> RunView:
    store = home.store
    return await view_from_state(
        home, run_id, (await fold_log(store.log(run_id), await store.snapshot(run_id))).fold.state
    )


async def view_from_state(home: Home, run_id: str, state: RunState) -> RunView:
    """Return the view of a run whose state is known already, for followers."""
    holder = await home.store.holder(run_id)
    status = status_of(condition_of(state), lambda: home.is_owned(run_id))
    return RunView(run_id, status, home.folder(run_id), state, analyze(state), holder)


async def read_log(
    home: Home, run_id: str, log_filter: LogFilter, *, last: int | None = None
) -> AsyncGenerator[LogLine, None]:
    """Return the run's log from the beginning, or its last lines."""
    log = await live_log(home.store.log(run_id))
    after = START if last is None else await _nth_from_end(log, log_filter, last)
    async for batch in log.read(after):
        for line in parse_batch(batch, log_filter):
            yield line


async def follow_log(
    home: Home, run_id: str, log_filter: LogFilter, *, last: int | None = None
) -> AsyncGenerator[LogLine, None]:
    """Like `read_log`, then each line as it is written. Never ends by itself."""
    log = await live_log(home.store.log(run_id))
    after = START if last is None else await _nth_from_end(log, log_filter, last)
    async with _closing(log.follow(after)) as batches:
        async for batch in batches:
            for line in parse_batch(batch, log_filter):
                yield line


async def parked_reason(home: Home, view: RunView) -> str | None:
    """Return why a parked run was parked."""
    if view.status != EndReason.PARKED:
        return None
    async for batch in home.store.log(view.run_id).read_backwards():
        for raw in reversed(batch.data.split(b"\n")):
            line = parse(raw)
            event = CODEC.event(line) if isinstance(line, Line) and line.type == SessionEnd.type else None
            if isinstance(event, SessionEnd) and event.reason == EndReason.PARKED:
                return event.summary
    return None


async def end_of_log(home: Home, run_id: str) -> Position:
    """Return the position of the log's end."""
    async for batch in home.store.log(run_id).read_backwards():
        return batch.end
    return START


# A log anywhere


async def analyze_log(path: str) -> Analysis:
    """Run phases 1 to 3 of the Resume Protocol on one log: which session, what it left open, how to continue."""
    return await _analyze(open_foreign_log(path))


async def analyze_run(home: Home, run_id: str) -> Analysis:
    """The same for the log of a run, wherever it is kept."""
    return await _analyze(home.store.log(run_id))


async def _analyze(log: Log) -> Analysis:
    state = await _fold_whole_log(log)
    target = session_to_resume(state)
    interrupted = tuple(interrupted_sessions(state))
    members = session_lineage(state, target) if target is not None else frozenset()
    if members != state.sessions.keys():
        state = await _fold_whole_log(log, only=members)
    return msgspec.structs.replace(analyze(state), interrupted_sessions=interrupted)


def folders_without_log(path: str) -> list[str]:
    """Feature folders of a `.claude/progress` (or of a project with one) that hold no log: their sessions left nothing.

    Other folders need not hold a log.
    """
    inside = os.path.join(path, ".claude", "progress")
    progress = inside if os.path.isdir(inside) else path
    if os.path.realpath(progress).split(os.sep)[-2:] != [".claude", "progress"]:
        return []
    folders = sorted(os.path.join(progress, name) for name in _list_folder(progress) if not name.startswith("."))
    return [folder for folder in folders if os.path.isdir(folder) and not os.path.isfile(os.path.join(folder, LOG))]


def logs_under(path: str) -> list[str]:
    """Return the logs at a path: a file, a run's or feature's folder, a `.claude/progress`, or a project with one."""
    if not os.path.isdir(path):
        return [require_readable(path)]
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadInput(f"{path} is not readable for this user")
    own = log_file(path)
    if os.path.isfile(own):
        return [own]
    for folder in (os.path.join(path, ".claude", "progress"), path):
        found = [os.path.join(folder, name, LOG) for name in _list_folder(folder)]
        found = [log for log in found if os.path.isfile(log)]
        if found:
            return sorted(found, key=os.path.getmtime, reverse=True)
    empty = ", ".join(folders_without_log(path))
    lacking = f" (not in {empty} either)" if empty else ""
    raise BadInput(
        f"{path} holds no {LOG}, nor folders with one{lacking}; name a log, a feature's folder or a .claude/progress"
    )


async def interrupted_first(logs: Sequence[str]) -> Sequence[str]:
    """Sort logs by urgency: interrupted ones before those that ended."""
    if len(logs) < 2:  # noqa: PLR2004 - nothing to order
        return logs
    cut_off = {log: await _was_interrupted(log) for log in logs}
    return sorted(logs, key=lambda log: not cut_off[log])


async def _was_interrupted(path: str) -> bool:
    """Read only the log's end."""
    detection = InterruptionDetector()
    try:
        async for batch in open_log_file(path).read_backwards():
            if any(detection.feed(raw) for raw in reversed(batch.data.split(b"\n")[:-1])):
                break
    except BadInput:
        return True  # a log that cannot be read comes first
    return detection.is_interrupted


async def _fold_whole_log(log: Log, only: frozenset[str] | None = None) -> RunState:
    """Fold the whole file; a torn last line is noted."""
    fold = (await fold_log(log, only=only)).fold
    if (last := await torn_last_line(log)) is not None:
        fold.state.lines += 1
        fold.note_malformed(f"torn last line, set aside: {last.reason}")
    return fold.state


async def _nth_from_end(log: Log, log_filter: LogFilter, count: int) -> Position:
    """Return the position before the last `count` matching lines."""
    if count <= 0:
        async for batch in log.read_backwards():
            return batch.end
        return START
    async for batch in log.read_backwards():
        for line in reversed(list(parse_batch(batch, log_filter))):
            count -= 1
            if count == 0:
                return line.cursor - len(line.raw) - 1
    return START


@asynccontextmanager
async def _closing(batches: AsyncIterator[Batch]) -> AsyncIterator[AsyncIterator[Batch]]:
    """Stop reading when the caller stops, not when the generator is garbage-collected."""
    try:
        yield batches
    finally:
        if isinstance(batches, AsyncGenerator):
            await batches.aclose()


def parse_batch(batch: Batch, log_filter: LogFilter = ALL_EVENTS) -> list[LogLine]:
    """Return the parsed lines of a batch without blank ones."""
    found: list[LogLine] = []
    cursor = batch.start
    for raw in batch.data.split(b"\n")[:-1]:
        cursor += len(raw) + 1
        line = parse(raw)
        if line is not None and log_filter.matches(line):
            found.append(LogLine(cursor, raw, line))
    return found


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
