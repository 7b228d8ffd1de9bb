"""A run in the hands of its owner: own → repair → fold, and then every append moves log and state together."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from holdfast.core.decide.attribution import Attribution
from holdfast.core.events import Event
from holdfast.core.events.inbox import InboxConsumed, InboxRejected, InboxReread
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import UNREADABLE, Line, parse
from holdfast.core.redaction.redaction import SHAPES, Redactor
from holdfast.core.state import RunState
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import new_sid
from holdfast.store.base import START, Batch, Desk, Head, Inbox, Journal, Lease, Log, Message, Position, Store
from holdfast.store.fold import Folded, Standing, fold_log

LONG_TAIL = 10_000  # lines: having read so many, the next opening should not have to
_REREAD = (
    "the inbox is not the one that was read so far: it was cut short, emptied, or an older one was put in its place; "
    "it is read again from its beginning, without what is in the log already"
)


class _Taken(msgspec.Struct):
    """As much of an `InboxConsumed` as tells which message it was."""

    message: str


class _Unread(NamedTuple):
    """Where what was not taken in begins in the inbox; and of what follows, what was taken in all the same."""

    start: Position
    taken: set[str]


class OwnedRun:
    """Made by `open_run`. The state is always the fold of what the log holds; ask for it again after an append."""

    def __init__(
        self,
        lease: Lease,
        journal: Journal,
        log: Log,
        inbox: Inbox,
        standing: Standing,
        unspoken: Sequence[LogRepaired],
    ) -> None:
        self.redactor = SHAPES  # what is removed from each event
        self.append = journal.append  # nothing in between: producers call this more often than all the rest
        self._lease = lease
        self._journal = journal
        self._log = log
        self._inbox = inbox
        self._standing = standing
        self._unspoken = unspoken
        self._taking_in = asyncio.Lock()
        self._taken: set[str] | None = None  # all messages of the log, once somebody needs to know
        self._snapshot_at = journal.head.position

    @property
    def state(self) -> RunState:
        return self._standing.state

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def head(self) -> Head:
        return self._journal.head

    async def begin(self, start: SessionStart, *also: Event) -> Batch:
        """Open the session in the log: its start, then what was repaired, then whatever else opens it.

        The start is filled in with what the run's log knows.
        """
        info = self.state.run
        known = msgspec.structs.replace(
            start,
            feature=start.feature or self.state.feature,
            branch=start.branch or (info.branch if info is not None else None),
            mode=start.mode or (info.workflow if info is not None else None),
            host=start.host or socket.gethostname(),
        )
        return await self.append(known, *self._unspoken, *also)

    async def has_mail(self) -> bool:
        """Whether something came in that was not taken in yet. Takes nothing in."""
        async with self._taking_in:
            await self._inbox.collect_reports()
            unread = await self._unread()
            async for _, message, _ in self._inbox.read(unread.start):
                if message is None or message.id not in unread.taken:
                    return True
        return False

    async def must_hear(self) -> None:
        """`StorageFailed` when nobody could tell us anything: whoever said nothing may not be to blame."""
        await self._inbox.must_take()

    async def take_in(self) -> list[Message]:
        """Consume what came into the inbox: each message becomes one event, and so comes once."""
        async with self._taking_in:  # two at once would read from the same cursor
            return await self._take_in()

    async def report_file(self, conversation: str) -> str:
        """Where a confined agent of this conversation reports: a file, empty and its own."""
        async with self._taking_in:
            return await self._inbox.report_file(conversation)

    async def _take_in(self) -> list[Message]:
        await self._inbox.collect_reports()
        messages: list[Message] = []
        events: list[Event] = []
        unread = await self._unread()
        if unread.start != self.state.inbox_cursor:
            events += [WarningLogged(message=_REREAD), InboxReread(cursor=unread.start)]
        async for cursor, message, reason in self._inbox.read(unread.start):
            if message is None or message.id in unread.taken:
                why = reason or (f"message {message.id} came before" if message else "not a message")
                events.append(InboxRejected(cursor=cursor, reason=why))
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
        if any(self.redactor.raw(message.body) is not message.body for message in messages):
            await self._inbox.blank(self.redactor, unread.start)
        if events:
            await self.append(*events)
        if self._taken is not None:
            self._taken.update(message.id for message in messages)
        return messages

    async def _unread(self) -> _Unread:
        state = self.state
        holds = await self._inbox.still_holds(state.inbox_cursor, state.inbox_last)
        if holds and not state.inbox_reread:
            return _Unread(state.inbox_cursor, set())
        if self._taken is None:
            self._taken = await _taken_in(self._log)
        return _Unread(state.inbox_cursor if holds else START, self._taken)

    async def save_snapshot(self) -> None:
        head = self.head
        self._snapshot_at = head.position
        snapshot = self._standing.snapshot(head)
        if snapshot is not None:
            await self._lease.save(snapshot)

    async def close(self) -> None:
        await self._journal.close()
        if self.head.position != self._snapshot_at:
            await self.save_snapshot()


@asynccontextmanager
async def open_run(
    store: Store, run_id: str, *, sid: str | None = None, feature: str | None = None, clock: Clock = now
) -> AsyncIterator[OwnedRun]:
    """Own a run, set a torn tail aside, and stand at the end of its log with its state in hand.

    Nothing is written before `begin`.
    """
    async with store.own(run_id) as lease:
        folded = await _folded(store, run_id)
        if folded.fold.state.newer:
            raise BadInput(
                f"run {run_id} was written by a newer Holdfast; nothing was changed, upgrade to go on with it"
            )
        repaired = await lease.repair()
        if await _end(store.log(run_id)) != folded.head.position:  # the repair took lines away, or ended one
            folded = await _folded(store, run_id)
        fold, head, lines_read = folded
        standing = Standing(fold, head.position)

        async def milestone() -> None:
            await run.save_snapshot()

        agent_of = Attribution(fold.state).agent_of
        redactor = Redactor.of(os.environ)
        sid, feature = sid or new_sid(), feature or fold.state.feature
        desk = Desk(sid, feature, head, clock, standing.note, milestone, agent_of, redactor)
        unspoken = [repair for repair in repaired if repair.kept_as not in fold.state.repairs]
        log, inbox = store.log(run_id), store.inbox(run_id)
        run = OwnedRun(lease, await lease.journal(desk), log, inbox, standing, unspoken)
        run.redactor = redactor
        if lines_read > LONG_TAIL:
            await run.save_snapshot()
        try:
            yield run
        finally:
            await run.close()


async def _folded(store: Store, run_id: str) -> Folded:
    return await fold_log(store.log(run_id), await store.snapshot(run_id))


async def _taken_in(log: Log) -> set[str]:
    """The id of every message that the log has."""
    found = set[str]()
    async for batch in log.read():
        for raw in batch.data.split(b"\n"):
            line = parse(raw) if InboxConsumed.type.encode() in raw else None
            if isinstance(line, Line) and line.type == InboxConsumed.type:
                with suppress(*UNREADABLE):
                    found.add(msgspec.json.decode(line.data, type=_Taken).message)
    return found


async def _end(log: Log) -> Position:
    async for batch in log.read_back():
        return batch.end
    return START
