"""The journal: `append` returns when the events are in the database, and many appends share one statement.

Lines are encoded as they arrive. While one statement is under way, the lines of other appends wait and form the next
one. A statement moves the head of the log from where this journal left it, if the epoch is still this journal's, and
inserts one row for each append: all of it happens, or nothing.

A statement whose connection is lost may have happened, or may still happen. So the head is read back first: if the log
ends where the statement would leave it, with our bytes, it happened. If it ends where we left it, the same statement is
sent again: whichever of the two comes first moves the head, and the other finds that it moved. Different lines are
never sent for the same place. When the lease is lost meanwhile, nothing more is sent.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.events import Draft, Event
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.base import SNAPSHOT_EVERY_BYTES, Batch, Head, Position, WriterContext
from holdfast.store.postgres.connect import DRIVER_ERRORS, Connection, connect, is_connection_lost, storage_error
from holdfast.store.postgres.lease import HeldLease, now_s
from holdfast.store.postgres.listener import INTEREST_LOCK, lock_number, run_channel
from holdfast.store.sequencer import Sequencer, position_mismatch

_FAILPOINT_COMMIT = failpoint_pair("postgres.commit")
_RETRY_DELAY_S = 0.1

_APPEND = """
WITH moved AS (
    UPDATE run SET head = $4, expires = now() + $10 WHERE serial = $1 AND epoch = $2 AND head = $3 RETURNING serial
), written AS (
    INSERT INTO chunk (run, start, data)
    SELECT moved.serial, line.start, line.data FROM moved, unnest($5::bigint[], $6::bytea[]) AS line (start, data)
)
SELECT serial, CASE WHEN NOT pg_try_advisory_xact_lock($7, $8) THEN pg_notify($9, '') END FROM moved"""
_HEAD = "SELECT epoch, head FROM run WHERE serial = $1 FOR UPDATE"  # waits for a statement that is under way
_CHUNK = "SELECT data FROM chunk WHERE run = $1 AND start = $2"


class _End(NamedTuple):
    epoch: int
    head: Position
    last_call: bytes | None  # the lines that are where ours belong


class PostgresJournal:
    def __init__(self, url: str, connection: Connection, held_lease: HeldLease, context: WriterContext) -> None:
        self._url = url
        self._connection = connection
        self._held_lease = held_lease
        self._on_written = context.on_written
        self._on_snapshot_due = context.on_snapshot_due
        self._sequencer = Sequencer(context)
        self._durable_end, self._link = context.head
        self._next_snapshot_at = self._durable_end + SNAPSHOT_EVERY_BYTES
        self._next_commit: asyncio.Future[None] | None = None  # of the lines that are pending
        self._committing: asyncio.Task[None] | None = None
        self._error: HoldfastError | None = None

    @classmethod
    async def open(cls, url: str, held_lease: HeldLease, context: WriterContext) -> "PostgresJournal":
        held_lease.check()
        try:
            connection = await connect(url)
        except DRIVER_ERRORS as error:
            raise storage_error(url, error) from error
        return cls(url, connection, held_lease, context)

    @property
    def head(self) -> Head:
        return Head(self._durable_end, self._link)

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        if self._error is not None:
            raise self._copy_error()
        sequencer = self._sequencer
        start = sequencer.position
        if expect is not None and expect != start:
            raise position_mismatch(start, expect)
        lines = sequencer.encode_lines(drafts)
        end = sequencer.position
        if self._durable_end < end:
            if self._next_commit is None:
                self._next_commit = asyncio.get_running_loop().create_future()
            if self._committing is None:
                self._committing = asyncio.create_task(self._commit_pending())
            await asyncio.shield(self._next_commit)  # when cancelled, the others still wait for it
        if self._durable_end < end:
            raise self._copy_error()
        if self._durable_end >= self._next_snapshot_at:
            self._next_snapshot_at = self._durable_end + SNAPSHOT_EVERY_BYTES
            await self._on_snapshot_due()
        return Batch(start, lines)

    async def close(self) -> None:
        if self._committing is not None:
            await asyncio.shield(self._committing)
        self._error = self._error or StorageFailed("the journal is closed")
        with suppress(*DRIVER_ERRORS):
            await self._connection.close(timeout=1.0)

    async def _commit_pending(self) -> None:
        """Commit until nothing is pending. Tasks that are ready when this starts have added their lines."""
        try:
            while self._next_commit is not None:
                committed, self._next_commit = self._next_commit, None
                try:
                    if self._error is None:
                        await self._commit([call for call in self._sequencer.take_pending() if call])
                except BaseException as error:
                    self._error = storage_error(self._url, error)
                    if not isinstance(error, Exception):
                        raise
                finally:
                    if not committed.done():
                        committed.set_result(None)
        finally:
            self._committing = None

    async def _commit(self, calls: list[bytes]) -> None:
        start = end = self._durable_end
        starts = []
        for call in calls:
            starts.append(end)
            end += len(call)
        if end != self._sequencer.position:
            raise StorageFailed("an append was interrupted; nothing more is written. Resume the run")
        link = self._sequencer.link
        _FAILPOINT_COMMIT.before()
        await self._write(start, end, starts, calls)
        _FAILPOINT_COMMIT.after()
        self._on_written(b"".join(calls))
        self._durable_end, self._link = end, link

    async def _write(self, start: Position, end: Position, starts: list[Position], calls: list[bytes]) -> None:
        serial, epoch = self._held_lease.serial, self._held_lease.epoch
        interest = (INTEREST_LOCK, lock_number(serial), run_channel(serial))
        arguments = (serial, epoch, start, end, starts, calls, *interest, self._held_lease.ttl)
        while True:
            self._held_lease.check()
            asked_at = now_s()
            try:
                moved = await self._connection.fetchrow(_APPEND, *arguments, timeout=self._held_lease.remaining_s)
            except DRIVER_ERRORS as error:
                if not is_connection_lost(error):
                    raise
                moved = None
            if moved is not None:
                self._held_lease.extend(asked_at)
                return
            if await self._has_happened(start, end, starts[-1], calls[-1]):
                return

    async def _has_happened(self, start: Position, end: Position, last_start: Position, last_call: bytes) -> bool:
        """Find out whether the lines are in the log. Raises `RunFenced` when the log is not ours any more."""
        while (found := await self._try_read_end(last_start)) is None:  # noqa: ASYNC110 - another machine sets no event
            await asyncio.sleep(_RETRY_DELAY_S)
        if found.epoch != self._held_lease.epoch:
            self._held_lease.fence("it has another owner, or was deleted")
        elif found.head == end and found.last_call == last_call:
            return True
        elif found.head != start:
            self._held_lease.fence(f"its log ends at {found.head}, but its owner wrote {start}")
        self._held_lease.check()
        return False

    async def _try_read_end(self, last_start: Position) -> _End | None:
        """Return the end of the log as the server has it; None when the server cannot be reached."""
        self._held_lease.check()
        serial, timeout_s = self._held_lease.serial, self._held_lease.remaining_s
        try:
            if self._connection.is_closed():
                self._connection = await connect(self._url, timeout_s=timeout_s)
            row = await self._connection.fetchrow(_HEAD, serial, timeout=timeout_s)
            last_call = await self._connection.fetchval(_CHUNK, serial, last_start, timeout=timeout_s)
        except DRIVER_ERRORS as error:
            if not is_connection_lost(error):
                raise
            self._connection.terminate()
            return None
        return _End(row["epoch"], row["head"], last_call) if row is not None else _End(-1, -1, None)

    def _copy_error(self) -> HoldfastError:
        """Return a copy of the error: an exception that many tasks raise collects the tracebacks of all of them."""
        assert self._error is not None, "lines that are not durable have an error"
        return type(self._error)(*self._error.args)
