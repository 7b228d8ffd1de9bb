"""Bringing the catalog up to date: one fold a run that moved, and what was said in it since."""

import asyncio
import os
from collections.abc import Mapping

from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.log.codec import CODEC, Line, Unfit, parse_lines
from holdfast.core.state import RunState, TaskStatus
from holdfast.core.summary.needs import needs_of
from holdfast.core.summary.spending import unpriced_in
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, Batch
from holdfast.store.files.catalog import UNKNOWN, Catalog, Row, Said, Stamp, Summary, stamp_of
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log

_TEXT_KEPT = 20_000  # characters of one message that can be searched

_NEED_KEPT = 400  # characters of what a run needs most

_AT_ONCE = 1_000  # messages in memory, however many there are

_UNREADABLE = Summary(None, None, None, None, "unreadable", None, None, 0, 0, 0, 0, 0, None, 0, 0, None, None)

_MESSAGE_MARK = f'"{MessageRecorded.type}"'.encode()


def index_runs(home: str, catalog: Catalog, behind: Mapping[str, Row | None]) -> list[Row]:
    """Make the rows of these runs anew. One that cannot be read is listed as such, and does not stop the others."""
    return asyncio.run(_index(FileStore(home), catalog, behind))


async def _index(store: FileStore, catalog: Catalog, behind: Mapping[str, Row | None]) -> list[Row]:
    rows: list[Row] = []
    for run_id, old in behind.items():
        try:
            rows.append(await _index_run(store, catalog, run_id, old))
        except FileNotFoundError:
            continue  # removed meanwhile
        except (HoldfastError, OSError, UnicodeError):
            rows.append(Row(run_id, UNKNOWN, START, _UNREADABLE))
    return rows


async def _index_run(store: FileStore, catalog: Catalog, run_id: str, old: Row | None) -> Row:
    stamp = stamp_of(os.path.join(run_folder(store.home, run_id), LOG))  # before the look: what comes later is new
    log = store.log(run_id)
    folded = await fold_log(log, await store.snapshot(run_id))
    grown = old is not None and old.stamp.inode == stamp.inode and old.said_until <= stamp.size
    start, anew = (old.said_until, False) if old is not None and grown else (START, old is not None)
    summary = summarize(folded.fold.state)
    said: list[Said] = []
    async for batch in log.read(start):
        said += _said(batch)
        start = batch.end
        if len(said) >= _AT_ONCE:
            partly = Row(run_id, Stamp(stamp.inode, 0, 0), start, summary)  # behind, until the rest is there too
            catalog.put(partly, said, old=old, anew=anew)
            old, anew, said = partly, False, []
    row = Row(run_id, stamp, start, summary)
    catalog.put(row, said, old=old, anew=anew)
    return row


def summarize(state: RunState) -> Summary:
    session = next(reversed(state.sessions.values()), None)
    needs = needs_of(state)
    return Summary(
        slug=state.feature,
        goal=state.run.goal if state.run else None,
        workflow=state.run.workflow if state.run else None,
        repo=state.run.repo if state.run else None,
        condition=condition_of(state),
        created=next(iter(state.sessions.values())).started if state.sessions else None,
        updated=session.last if session else None,
        sessions=len(state.sessions),
        events=state.events,
        tasks_done=sum(task.status is TaskStatus.COMPLETE for task in state.tasks.values()),
        tasks=len(state.tasks),
        tokens=state.budget.input_tokens + state.budget.output_tokens,
        dollars=state.budget.dollars,
        unpriced=unpriced_in(state),
        needs=len(needs),
        want=needs[0].want if needs else None,
        need=needs[0].text[:_NEED_KEPT] if needs else None,
    )


def condition_of(state: RunState) -> str:
    """Archived, open, or how the last session ended."""
    session = state.newest_sitting()
    if state.run is not None and state.run.archived:
        return "archived"
    if session is None:
        return "empty"
    if not session.ended:
        return "open"
    return "done" if session.end_reason in (None, "all_done") else session.end_reason


def _said(batch: Batch) -> list[Said]:
    if _MESSAGE_MARK not in batch.data:
        return []
    found: list[Said] = []
    position = batch.start
    lines = batch.data.split(b"\n")
    for raw, line in zip(lines, parse_lines(batch.data), strict=False):
        position += len(raw) + 1
        if isinstance(line, Line) and line.type == MessageRecorded.type:
            try:
                message = CODEC.event(line)
            except Unfit:
                continue
            if isinstance(message, MessageRecorded):
                found.append(Said(position, message.speaker, message.text[:_TEXT_KEPT]))
    return found
