"""Brings the catalog up to date: one fold of each changed run, and its new messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.core.end_reason import EndReason
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse_lines
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.core.summary.limits import resumes_at
from holdfast.core.summary.needs import Need, NeedKind, needs_of
from holdfast.core.summary.spending import unpriced_count
from holdfast.core.task_state import TaskStatus
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import START, Batch
from holdfast.store.fold import fold_log
from holdfast.store.index import UNKNOWN_STAMP, CatalogRow, IndexedMessage, LogStamp, Summary
from holdfast.store.live_log import LiveLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.index import Catalog

_MAX_TEXT_CHARS = 20_000  # of one message in the search index

_MAX_NEED_CHARS = 400  # of a run's most urgent need

_BATCH_MESSAGES = 1_000  # messages held in memory at once

_UNREADABLE_SUMMARY = Summary(
    None, None, None, None, RunStatus.UNREADABLE, None, None, 0, 0, 0, 0, 0, None, None, 0, 0, *6 * (None,)
)

_MESSAGE_TYPE_BYTES = f'"{MessageRecorded.type}"'.encode()


async def update_catalog(
    home: Home, catalog: Catalog, repo: str | None = None, progress: Callable[[int, int], None] | None = None
) -> list[tuple[str, Summary]]:
    """Index the runs whose logs have changed; return the summaries of all runs, or of those of one repository."""
    current, stale = catalog.listing() if repo is None else catalog.listing_of(repo)
    indexed = await index_runs(home, catalog, stale, progress)
    return current + [(row.id, row.summary) for row in indexed if repo in (None, row.summary.repo)]


async def index_runs(
    home: Home,
    catalog: Catalog,
    stale: Mapping[str, CatalogRow | None],
    progress: Callable[[int, int], None] | None = None,
) -> list[CatalogRow]:
    """Index these runs again. A run that cannot be read is listed as unreadable and does not stop the others."""
    rows: list[CatalogRow] = []
    for done, (run_id, old) in enumerate(stale.items()):
        if progress is not None:
            progress(done, len(stale))
        try:
            rows.append(await _index_run(home, catalog, run_id, old))
        except FileNotFoundError:
            continue  # removed meanwhile
        except (HoldfastError, OSError, UnicodeError):
            rows.append(CatalogRow(run_id, UNKNOWN_STAMP, START, _UNREADABLE_SUMMARY))
    return rows


async def _index_run(home: Home, catalog: Catalog, run_id: str, old: CatalogRow | None) -> CatalogRow:
    stamp = home.index.stamp(run_id)  # before the log is read: what is written later makes the row outdated
    log = home.store.log(run_id)
    folded = await fold_log(log, await home.store.snapshot(run_id))
    grown = old is not None and old.stamp.inode == stamp.inode and old.messages_until <= stamp.size
    start, anew = (old.messages_until, False) if old is not None and grown else (START, old is not None)
    summary, rewinds = summarize(folded.fold.state), folded.fold.state.rewinds
    if any(rewind.at >= start for rewind in rewinds):  # messages that are indexed are abandoned now, or live again
        start, anew = START, old is not None
    messages: list[IndexedMessage] = []
    async for batch in LiveLog(log, rewinds).read(start):
        messages += _messages_in(batch)
        start = batch.end
        if len(messages) >= _BATCH_MESSAGES:
            partly = CatalogRow(
                run_id, LogStamp(stamp.inode, 0, 0), start, summary
            )  # marks the row outdated until the rest is indexed
            catalog.put(partly, messages, old=old, replace_messages=anew)
            old, anew, messages = partly, False, []
    row = CatalogRow(run_id, stamp, start, summary)
    catalog.put(row, messages, old=old, replace_messages=anew)
    return row


def summarize(state: RunState) -> Summary:
    session = next(reversed(state.sessions.values()), None)
    needs = needs_of(state)
    adopted = state.run.adopted if state.run else None
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
        estimate=state.budget.estimate,
        unpriced=unpriced_count(state),
        needs=len(needs),
        want=needs[0].want if needs else None,
        need=_first_need(state, needs),
        adopted=adopted.tool if adopted else None,
        adopted_path=adopted.path if adopted else None,
        adopted_session=adopted.session if adopted else None,
        resumes_at=resumes_at(state),
    )


def _first_need(state: RunState, needs: Sequence[Need]) -> str | None:
    """A run that was parked may need no answer: then the reason is what a person has to know."""
    newest = state.newest_session()
    text = needs[0].text if needs else None
    if newest is not None and newest.end_reason in (EndReason.PARKED, EndReason.ERROR):
        text = (newest.end_detail or text) if all(need.want is NeedKind.MESSAGE for need in needs) else text
    return text[:_MAX_NEED_CHARS] if text else None


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
