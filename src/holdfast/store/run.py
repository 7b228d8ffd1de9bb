"""A run in the hands of its owner: own → repair → fold, and then every append moves log and state together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from holdfast.core.events import Event
from holdfast.core.events.inbox import InboxConsumed, InboxRejected
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.session import SessionStart
from holdfast.core.state import RunState
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import new_sid
from holdfast.store.base import START, Batch, Desk, Head, Inbox, Journal, Lease, Log, Message, Position, Store
from holdfast.store.folding import Folded, Standing, fold_log

LONG_TAIL = 10_000  # lines: having read so many, the next opening should not have to


class OwnedRun:
    """Made by `open_run`. The state is always the fold of what the log holds; ask for it again after an append."""

    def __init__(
        self, lease: Lease, journal: Journal, inbox: Inbox, standing: Standing, unspoken: Sequence[LogRepaired]
    ) -> None:
        self.append = journal.append  # nothing in between: producers call this more often than all the rest
        self._lease = lease
        self._journal = journal
        self._inbox = inbox
        self._standing = standing
        self._unspoken = unspoken
        self._taking_in = asyncio.Lock()
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
        """Open the session in the log: its start, then what was repaired, then whatever else opens it."""
        return await self.append(start, *self._unspoken, *also)

    async def has_mail(self) -> bool:
        """Whether something came in that was not taken in yet. Changes nothing."""
        async for _ in self._inbox.read(self.state.inbox_cursor):
            return True
        return False

    async def must_hear(self) -> None:
        """`StorageFailed` when nobody could tell us anything: whoever said nothing may not be to blame."""
        await self._inbox.must_take()

    async def take_in(self) -> list[Message]:
        """Consume what came into the inbox: each message becomes one event, and so comes once."""
        async with self._taking_in:  # two at once would read from the same cursor
            return await self._take_in()

    async def _take_in(self) -> list[Message]:
        messages: list[Message] = []
        events: list[Event] = []
        async for cursor, message, reason in self._inbox.read(self.state.inbox_cursor):
            if message is None:
                events.append(InboxRejected(cursor=cursor, reason=reason or "not a message"))
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
        if events:
            await self.append(*events)
        return messages

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

        desk = Desk(sid or new_sid(), feature or fold.state.feature, head, clock, standing.note, milestone)
        unspoken = [repair for repair in repaired if repair.kept_as not in fold.state.repairs]
        run = OwnedRun(lease, await lease.journal(desk), store.inbox(run_id), standing, unspoken)
        if lines_read > LONG_TAIL:
            await run.save_snapshot()
        try:
            yield run
        finally:
            await run.close()


async def _folded(store: Store, run_id: str) -> Folded:
    return await fold_log(store.log(run_id), await store.snapshot(run_id))


async def _end(log: Log) -> Position:
    async for batch in log.read_back():
        return batch.end
    return START
