"""Opens a run for its owner: own → repair → fold. After that, every append updates log and state together."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from holdfast.core.decide.attribution import Attribution
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.inbox import InboxConsumed, InboxRejected, InboxReread
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.rewind import RunRewound
from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import DECODE_ERRORS, Line, parse
from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR, Redactor
from holdfast.core.state import RunState
from holdfast.core.telemetry.ids import TraceIds
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import new_sid
from holdfast.store.base import START, Batch, Head, Inbox, Journal, Lease, Log, Message, Position, Store, WriterContext
from holdfast.store.fold import FoldedLog, LiveState, fold_log, fold_prefix

SNAPSHOT_AFTER_LINES = 10_000  # after reading so many lines, save a snapshot for the next session
_REREAD_WARNING = (
    "the inbox was truncated, emptied or replaced by an older copy; "
    "it is read again from the start, without the messages that are in the log already"
)


class _ConsumedMessage(msgspec.Struct):
    """The part of an `InboxConsumed` that identifies its message."""

    message: str


class _Unread(NamedTuple):
    """The position of the first unread entry, and the ids of consumed messages that may follow it."""

    start: Position
    consumed_ids: set[str]


_own_sessions: set[tuple[int, str]] = set()  # the sessions of this process: pid (it may fork) and sid


class OwnedRun:
    """A run with its log and state; created by `open_run`. Read `state` again after an append."""

    def __init__(
        self,
        lease: Lease,
        journal: Journal,
        log: Log,
        inbox: Inbox,
        live_state: LiveState,
        unlogged_repairs: Sequence[LogRepaired],
    ) -> None:
        self.redactor = SHAPES_ONLY_REDACTOR  # removes secrets from each event
        self.append = journal.append  # direct: this is the most frequent call
        self._lease = lease
        self._journal = journal
        self._log = log
        self._inbox = inbox
        self._live_state = live_state
        self._unlogged_repairs = unlogged_repairs
        self._inbox_lock = asyncio.Lock()
        self._consumed_ids: set[str] | None = None  # all messages in the log, read on first use
        self._snapshot_at = journal.head.position

    @property
    def state(self) -> RunState:
        return self._live_state.state

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    async def wait_until_lost(self) -> str:
        """Return the reason when another process may own the run soon, although this one lives."""
        return await self._lease.wait_until_lost()

    @property
    def is_lost(self) -> bool:
        return self._lease.is_lost

    @property
    def may_have_another_owner(self) -> bool:
        """True when the run was lost so long ago that another process may own it."""
        return self._lease.may_have_another_owner

    @property
    def head(self) -> Head:
        return self._journal.head

    async def begin_session(self, start: SessionStart, *more_events: Event) -> Batch:
        """Write the session's first events: its start, then repairs, then `more_events`.

        Empty fields of the start are filled in from the run's log.
        """
        info = self.state.run
        filled_start = msgspec.structs.replace(
            start,
            feature=start.feature or self.state.feature,
            branch=start.branch or (info.branch if info is not None else None),
            mode=start.mode or (info.workflow if info is not None else None),
            host=start.host or socket.gethostname(),
        )
        batch = await self.append(filled_start, *self._unlogged_repairs, *more_events)
        _own_sessions.add((os.getpid(), self._newest_sid()))
        return batch

    def was_created_by_this_process(self) -> bool:
        """Whether no other process worked on the run: this one created it, and now begins its first session of work.

        Then no process of an earlier session can be alive, and no scan for one is needed.
        """
        own, newest = os.getpid(), self._newest_sid()
        return (own, newest) in _own_sessions and all(
            (own, sid) in _own_sessions and (sid == newest or session.end_reason == EndReason.PLANNED)
            for sid, session in self.state.sessions.items()
        )

    def _newest_sid(self) -> str:
        return next(reversed(self.state.sessions))

    async def rewind(self, event: RunRewound, then: RunState) -> None:
        """Record a rewind to a position; `then` was the state there. Nothing was written since `event.at`."""
        self._live_state.keep_prefix(event.position, then)
        await self.append(event, expect=event.at)

    async def state_at(self, position: Position) -> RunState:
        """Return the state at an earlier position of the log."""
        return await fold_prefix(self._log, position, self.state.rewinds)

    async def has_unread(self) -> bool:
        """True when the inbox has entries that are not consumed. Consumes nothing."""
        async with self._inbox_lock:
            await self._inbox.collect_reports()
            unread = await self._find_unread()
            async for _, message, _ in self._inbox.read(unread.start):
                if message is None or message.id not in unread.consumed_ids:
                    return True
        return False

    async def check_inbox_writable(self) -> None:
        """Raise `StorageFailed` when the inbox cannot be written: then an agent without a report is not to blame."""
        await self._inbox.check_writable()

    async def consume_inbox(self) -> list[Message]:
        """Consume the inbox: each message becomes one event, and so is handled once."""
        async with self._inbox_lock:  # two concurrent calls would read from the same cursor
            return await self._consume_inbox()

    async def create_report_file(self, conversation_id: str) -> str:
        """Create an empty file for the reports of this conversation's confined agent."""
        async with self._inbox_lock:
            return await self._inbox.create_report_file(conversation_id)

    async def _consume_inbox(self) -> list[Message]:
        await self._inbox.collect_reports()
        messages: list[Message] = []
        events: list[Event] = []
        unread = await self._find_unread()
        if unread.start != self.state.inbox_cursor:
            events += [WarningLogged(message=_REREAD_WARNING), InboxReread(cursor=unread.start)]
        async for cursor, message, reason in self._inbox.read(unread.start):
            if message is None or message.id in unread.consumed_ids:
                rejection = reason or (f"duplicate of message {message.id}" if message else "not a message")
                events.append(InboxRejected(cursor=cursor, reason=rejection))
                continue
            messages.append(message)
            events.append(
                InboxConsumed(
                    cursor=cursor,
                    message=message.id,
                    kind=message.kind,
                    sender=message.sender,
                    body=message.body,
                )
            )
        if any(self.redactor.redact_json(message.body) is not message.body for message in messages):
            await self._inbox.redact(self.redactor, unread.start)
        if events:
            await self.append(*events)
        if self._consumed_ids is not None:
            self._consumed_ids.update(message.id for message in messages)
        return messages

    async def _find_unread(self) -> _Unread:
        state = self.state
        is_valid = await self._inbox.is_cursor_valid(state.inbox_cursor, state.inbox_last)
        if is_valid and not state.inbox_reread:
            return _Unread(state.inbox_cursor, set())
        if self._consumed_ids is None:
            self._consumed_ids = await _consumed_ids(self._log)
        return _Unread(state.inbox_cursor if is_valid else START, self._consumed_ids)

    async def save_snapshot(self) -> None:
        head = self.head
        self._snapshot_at = head.position
        snapshot = self._live_state.snapshot(head)
        if snapshot is not None:
            await self._lease.save_snapshot(snapshot)

    async def close(self) -> None:
        await self._journal.close()
        if self.head.position != self._snapshot_at:
            await self.save_snapshot()


@asynccontextmanager
async def open_run(
    store: Store, run_id: str, *, sid: str | None = None, feature: str | None = None, clock: Clock = now
) -> AsyncIterator[OwnedRun]:
    """Own a run, repair a torn tail, and fold the log into its state.

    Writes no event: `begin_session` writes the first.
    """
    async with store.own(run_id) as lease:
        folded = await _fold_run(store, run_id)
        if folded.fold.state.newer:
            raise BadInput(
                f"run {run_id} was written by a newer Holdfast; nothing was changed. Upgrade Holdfast to continue it"
            )
        repaired = await lease.repair()
        if await _log_end(store.log(run_id)) != folded.head.position:  # the repair removed lines, or completed one
            folded = await _fold_run(store, run_id)
        fold, head, lines_read = folded
        live_state = LiveState(fold, head.position)

        async def on_snapshot_due() -> None:
            await run.save_snapshot()

        agent_of = Attribution(fold.state).agent_of
        redactor = Redactor.from_environment(os.environ)
        sid, feature = sid or new_sid(), feature or fold.state.feature
        context = WriterContext(sid, feature, head, clock, live_state.add_lines, on_snapshot_due, agent_of, redactor)
        context = context._replace(trace=TraceIds(run_id, fold.state))
        unlogged_repairs = [repair for repair in repaired if repair.kept_as not in fold.state.repairs]
        log, inbox = store.log(run_id), store.inbox(run_id)
        run = OwnedRun(lease, await lease.open_journal(context), log, inbox, live_state, unlogged_repairs)
        run.redactor = redactor
        if lines_read > SNAPSHOT_AFTER_LINES:
            await run.save_snapshot()
        try:
            yield run
        finally:
            await run.close()


async def _fold_run(store: Store, run_id: str) -> FoldedLog:
    return await fold_log(store.log(run_id), await store.snapshot(run_id))


async def _consumed_ids(log: Log) -> set[str]:
    """Return the ids of all messages in the log."""
    found = set[str]()
    async for batch in log.read():
        for raw in batch.data.split(b"\n"):
            line = parse(raw) if InboxConsumed.type.encode() in raw else None
            if isinstance(line, Line) and line.type == InboxConsumed.type:
                with suppress(*DECODE_ERRORS):
                    found.add(msgspec.json.decode(line.data, type=_ConsumedMessage).message)
    return found


async def _log_end(log: Log) -> Position:
    async for batch in log.read_backwards():
        return batch.end
    return START
