"""The journal: `append` returns when the events are on the disk, and many appends share one sync.

Group commit without a timer. Lines are encoded as they arrive. The first task to append yields to the event loop once,
so that every task that is ready adds its lines; then it writes and syncs for all of them. Lines that arrive meanwhile
form the next commit. A task that has been the only writer for a while yields only now and then. The sync runs on the
event loop itself: a hop to a thread costs more than it saves. After a sync the processor's caches are cold, and each
object that an append creates costs several times as much as usual: so an append creates only its lines, and compares
positions to learn whether they are on the disk.

A failed write or sync poisons the journal: no append of that commit is acknowledged, its bytes are rolled back, and no
event is ever written after a hole. Opening the run again repairs the tail and continues.
"""

import os
from asyncio import current_task
from collections.abc import Callable, Generator
from contextlib import suppress
from types import coroutine

from holdfast.core.events import Draft, Event
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.leaf.files.disk import AppendFailpoints, Disk, disk_advice, write_all
from holdfast.store.base import SNAPSHOT_EVERY_BYTES, Batch, Head, Position, WriterContext
from holdfast.store.files.write_guard import WriteGuard
from holdfast.store.sequencer import Sequencer, position_mismatch

_FAILPOINT_APPEND = AppendFailpoints("journal.append")
_SOLO_COMMITS = 8  # after so many commits that no other task joined, most are made without yielding,
_YIELD_EVERY_COMMITS = 16  # except one in so many, in case other tasks append again


class FileJournal:
    def __init__(self, path: str, context: WriterContext, is_owned: Callable[[], bool], disk: Disk) -> None:
        self._path = path
        self._disk = _FAILPOINT_APPEND.wrap(disk)
        self._on_written = context.on_written
        self._on_snapshot_due = context.on_snapshot_due
        self._sequencer = Sequencer(context)
        self._durable_end, self._link = context.head
        self._next_snapshot_at = self._durable_end + SNAPSHOT_EVERY_BYTES
        self._is_committing = False
        self._last_committer = 0  # the `id` of the task that made the last commit
        self._solo_commits = 0  # how many of its commits in a row no other task joined
        self._error: HoldfastError | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._guard = WriteGuard(path, self._fd, is_owned)

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
        if self._is_committing:
            while self._durable_end < end and self._error is None:
                await _yield_to_loop()  # to the task that writes for us
        else:
            leader = id(current_task())
            if leader != self._last_committer:
                self._last_committer, self._solo_commits = leader, 0
            self._is_committing = True
            try:
                if self._solo_commits < _SOLO_COMMITS or self._solo_commits % _YIELD_EVERY_COMMITS == 0:
                    await _yield_to_loop()  # tasks that are ready join this commit
            finally:  # also when cancelled: other tasks wait for it
                self._is_committing = False
                self._commit()
            if self._durable_end >= self._next_snapshot_at:
                self._next_snapshot_at = self._durable_end + SNAPSHOT_EVERY_BYTES
                await self._on_snapshot_due()
        if self._durable_end < end:
            raise self._copy_error()
        return Batch(start, lines)

    async def close(self) -> None:
        try:
            if self._is_committing:
                with suppress(HoldfastError):  # `append` reports it to the tasks whose events failed
                    await self.append()  # joins the commit in progress, and so waits for its end
        finally:
            if self._fd >= 0:
                self._guard.close()
                os.close(self._fd)
                self._fd = -1
            self._error = self._error or StorageFailed(f"the journal {self._path} is closed")

    def _commit(self) -> None:
        """Write and sync all pending lines. On failure, sets `_error`."""
        disk, fd, start = self._disk, self._fd, self._durable_end
        try:
            calls = self._sequencer.take_pending()
            self._solo_commits = self._solo_commits + 1 if len(calls) == 1 else 0
            data = b"".join(calls)
            if start + len(data) != self._sequencer.position:
                self._error = StorageFailed(
                    f"an append to {self._path} was interrupted; nothing more is written. Resume the run"
                )
            elif data:
                self._guard.check(start)
                try:
                    done = disk.write(fd, data)
                    if done < len(data):
                        write_all(disk, fd, data[done:])
                    disk.sync(fd)
                except BaseException:
                    self._roll_back()
                    raise
                self._on_written(data)
                self._durable_end, self._link = start + len(data), self._sequencer.link
        except BaseException as error:
            self._error = error if isinstance(error, HoldfastError) else self._storage_error(error)
            if not isinstance(error, Exception):
                raise

    def _roll_back(self) -> None:
        """Truncate what was not acknowledged.

        After a failed sync the bytes are readable, but may never reach the disk: the kernel does not try again, and a
        later sync succeeds without them.
        """
        with suppress(OSError):
            self._disk.truncate(self._fd, self._durable_end)
        self._disk.drop_unwritten(self._fd)

    def _storage_error(self, error: BaseException) -> StorageFailed:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        return StorageFailed(f"cannot write {self._path}: {reason}; the events were not saved; {disk_advice(error)}")

    def _copy_error(self) -> HoldfastError:
        """Return a copy of the error: an exception that many tasks raise collects the tracebacks of all of them."""
        assert self._error is not None, "lines that are not durable have an error"
        return type(self._error)(*self._error.args)


@coroutine
def _yield_to_loop() -> Generator[None, None, None]:
    """Yield to the event loop: `asyncio.sleep(0)` without its overhead."""
    yield
