"""Bringing the catalog up to date: one fold a run that moved, and what was said in it since."""

import asyncio
import os
from collections.abc import Mapping

from holdfast.core.end_reason import EndReason
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse_lines
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState, TaskStatus
from holdfast.core.summary.needs import needs_of
from holdfast.core.summary.spending import unpriced_count
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, Batch
from holdfast.store.files.catalog import UNKNOWN_STAMP, Catalog, CatalogRow, IndexedMessage, LogStamp, Summary, stamp_of
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log

_MAX_TEXT_CHARS = 20_000  # characters of one message that can be searched

_MAX_NEED_CHARS = 400  # characters of what a run needs most

_BATCH_MESSAGES = 1_000  # messages in memory, however many there are

_UNREADABLE_SUMMARY = Summary(
    None, None, None, None, RunStatus.UNREADABLE, None, None, 0, 0, 0, 0, 0, None, 0, 0, None, None
)

_MESSAGE_TYPE_BYTES = f'"{MessageRecorded.type}"'.encode()


def index_runs(home: str, catalog: Catalog, stale: Mapping[str, CatalogRow | None]) -> list[CatalogRow]:
    """Make the rows of these runs anew. One that cannot be read is listed as such, and does not stop the others."""
    return asyncio.run(_index_stale(FileStore(home), catalog, stale))


async def _index_stale(store: FileStore, catalog: Catalog, stale: Mapping[str, CatalogRow | None]) -> list[CatalogRow]:
    rows: list[CatalogRow] = []
    for run_id, old in stale.items():
        try:
            rows.append(await _index_run(store, catalog, run_id, old))
        except FileNotFoundError:
            continue  # removed meanwhile
        except (HoldfastError, OSError, UnicodeError):
            rows.append(CatalogRow(run_id, UNKNOWN_STAMP, START, _UNREADABLE_SUMMARY))
    return rows


async def _index_run(store: FileStore, catalog: Catalog, run_id: str, old: CatalogRow | None) -> CatalogRow:
    stamp = stamp_of(os.path.join(run_folder(store.home, run_id), LOG))  # before the look: what comes later is new
    log = store.log(run_id)
    folded = await fold_log(log, await store.snapshot(run_id))
    grown = old is not None and old.stamp.inode == stamp.inode and old.messages_until <= stamp.size
    start, anew = (old.messages_until, False) if old is not None and grown else (START, old is not None)
    summary = summarize(folded.fold.state)
    said: list[IndexedMessage] = []
    async for batch in log.read(start):
        said += _messages_in(batch)
        start = batch.end
        if len(said) >= _BATCH_MESSAGES:
            partly = CatalogRow(
                run_id, LogStamp(stamp.inode, 0, 0), start, summary
            )  # behind, until the rest is there too
            catalog.put(partly, said, old=old, replace_messages=anew)
            old, anew, said = partly, False, []
    row = CatalogRow(run_id, stamp, start, summary)
    catalog.put(row, said, old=old, replace_messages=anew)
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
        unpriced=unpriced_count(state),
        needs=len(needs),
        want=needs[0].want if needs else None,
        need=needs[0].text[:_MAX_NEED_CHARS] if needs else None,
    )


def condition_of(state: RunState) -> str:
    """Archived, open, or how the last session ended."""
    session = state.newest_session()
    if state.run is not None and state.run.archived:
        return RunStatus.ARCHIVED
    if session is None:
        return RunStatus.EMPTY
    if not session.ended:
        return RunStatus.OPEN
    return RunStatus.DONE if session.end_reason in (None, EndReason.ALL_DONE) else session.end_reason


def _messages_in(batch: Batch) -> list[IndexedMessage]:
    if _MESSAGE_TYPE_BYTES not in batch.data:
        return []
    found: list[IndexedMessage] = []
    position = batch.start
    lines = batch.data.split(b"\n")
    for raw, line in zip(lines, parse_lines(batch.data), strict=False):
        position += len(raw) + 1
        if isinstance(line, Line) and line.type == MessageRecorded.type:
            try:
                message = CODEC.event(line)
            except InvalidEventData:
                continue
            if isinstance(message, MessageRecorded):
                found.append(IndexedMessage(position, message.speaker, message.text[:_MAX_TEXT_CHARS]))
    return found
