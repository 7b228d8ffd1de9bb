"""The journal: `append` returns when the events are on the disk, and many appends share one sync.

Group commit without a clock. Lines are stamped as they come. The first to append gives way once, so that everyone
who is ready adds theirs; then it writes and syncs for all of them. What arrives meanwhile is the next commit. A task
that has been alone for a while gives way only now and then. The sync is made on the event loop itself: a hop to a
thread costs more than it saves. After it the processor's caches are cold, and each object that an append makes costs
several times what it usually does: so there is nothing here for each append but its lines, and a position tells
whether they are on the disk.

A write or a sync that fails poisons the journal: nobody of that commit is acknowledged, what arrived of it is
taken back, and no event is ever written after a hole. Opening the run again repairs the tail and goes on.
"""

import os
from asyncio import current_task
from collections.abc import Callable, Generator
from contextlib import suppress
from types import coroutine

from holdfast.core.events import Draft, Event
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.store.base import SNAPSHOT_EVERY, Batch, Desk, Head, Position
from holdfast.store.files.disk import Appending, Disk, write_all
from holdfast.store.files.write_guard import Ground
from holdfast.store.sequencer import Stamp, mismatch

_CRASH = Appending("journal.append")
_SURELY_ALONE = 8  # commits of one task that nobody joined: then most are made without giving way,
_LOOK_AGAIN = 16  # but one of so many still is, in case that others have come


class FileJournal:
    def __init__(self, path: str, desk: Desk, still_owned: Callable[[], bool], disk: Disk) -> None:
        self._path = path
        self._disk = _CRASH.on(disk)
        self._written = desk.written
        self._milestone = desk.milestone
        self._stamp = Stamp(desk)
        self._durable, self._link = desk.head
        self._next_milestone = self._durable + SNAPSHOT_EVERY
        self._leading = False
        self._leader = 0  # whose commit was the last, as `id` tells tasks apart
        self._alone = 0  # how many of its commits in a row nobody joined
        self._refusal: HoldfastError | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._ground = Ground(path, self._fd, still_owned)

    @property
    def head(self) -> Head:
        return Head(self._durable, self._link)

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        if self._refusal is not None:
            raise self._refused()
        stamp = self._stamp
        start = stamp.position
        if expect is not None and expect != start:
            raise mismatch(start, expect)
        lines = stamp.lines(drafts)
        end = stamp.position
        if self._leading:
            while self._durable < end and self._refusal is None:
                await _give_way()  # to the one who writes for us
        else:
            leader = id(current_task())
            if leader != self._leader:
                self._leader, self._alone = leader, 0
            self._leading = True
            try:
                if self._alone < _SURELY_ALONE or self._alone % _LOOK_AGAIN == 0:
                    await _give_way()  # whoever is ready joins this commit
            finally:  # also when cancelled: others wait for it
                self._leading = False
                self._commit()
            if self._durable >= self._next_milestone:
                self._next_milestone = self._durable + SNAPSHOT_EVERY
                await self._milestone()
        if self._durable < end:
            raise self._refused()
        return Batch(start, lines)

    async def close(self) -> None:
        try:
            if self._leading:
                with suppress(HoldfastError):  # whose events they were is told by `append`
                    await self.append()  # joins the commit that is under way, and so outlasts it
        finally:
            if self._fd >= 0:
                self._ground.close()
                os.close(self._fd)
                self._fd = -1
            self._refusal = self._refusal or StorageFailed(f"the journal {self._path} is closed")

    def _commit(self) -> None:
        """Bring all that was stamped to the disk. When that fails, `_refusal` says why."""
        disk, fd, start = self._disk, self._fd, self._durable
        try:
            calls = self._stamp.take()
            self._alone = self._alone + 1 if len(calls) == 1 else 0
            data = b"".join(calls)
            if start + len(data) != self._stamp.position:
                self._refusal = StorageFailed(
                    f"an append to {self._path} was interrupted; nothing more is written, resume"
                )
            elif data:
                self._ground.check(start)
                try:
                    done = disk.write(fd, data)
                    if done < len(data):
                        write_all(disk, fd, data[done:])
                    disk.sync(fd)
                except BaseException:
                    self._take_back()
                    raise
                self._written(data)
                self._durable, self._link = start + len(data), self._stamp.link
        except BaseException as error:
            self._refusal = error if isinstance(error, HoldfastError) else self._poisoned(error)
            if not isinstance(error, Exception):
                raise

    def _take_back(self) -> None:
        """Cut off what was not acknowledged.

        After a failed sync it can be read, and yet it may never reach the disk: the kernel does not try again, and
        a later sync succeeds without it.
        """
        with suppress(OSError):
            self._disk.truncate(self._fd, self._durable)
        self._disk.forget(self._fd)

    def _poisoned(self, error: BaseException) -> StorageFailed:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        return StorageFailed(
            f"cannot write {self._path}: {reason}; nothing of it was acknowledged, free the disk and resume"
        )

    def _refused(self) -> HoldfastError:
        """The refusal for one more task: an error that many raise gathers the traceback of each."""
        assert self._refusal is not None, "what is not durable was refused"
        return type(self._refusal)(*self._refusal.args)


@coroutine
def _give_way() -> Generator[None, None, None]:
    """Let the others have their turn: `asyncio.sleep(0)`, without its detours."""
    yield
