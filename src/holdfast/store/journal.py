"""The journal: `append` returns when the events are on the disk, and many appends share one sync.

Group commit without a clock. The first to append gives way once, so that everyone who is ready joins;
then it writes and syncs for all of them. What arrives meanwhile is the next commit. Who has been alone for a while
gives way only now and then. The sync is made on the event loop itself: a hop to a thread costs more than it saves.

A write or a sync that fails poisons the journal: nobody of that commit is acknowledged, what arrived of it is
taken back, and no event is ever written after a hole. Opening the run again repairs the tail and goes on.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from holdfast.core.events import Draft, Event
from holdfast.leaf.errors import Fenced, HoldfastError, StorageFailed
from holdfast.store.base import Batch, Desk, Head, Position
from holdfast.store.disk import Disk, write_all
from holdfast.store.stamping import Stamp, check_expected, drafted

_SURELY_ALONE = 8  # commits that nobody joined: then most are made without giving way,
_LOOK_AGAIN = 16  # but one of so many still is, in case that others have come


class _Entry:
    """One call of `append`, waiting for its commit."""

    __slots__ = ("drafts", "expect", "outcome", "waiter")

    def __init__(self, drafts: Sequence[Draft], expect: Position | None) -> None:
        self.drafts = drafts
        self.expect = expect
        self.outcome: Batch | Exception | None = None
        self.waiter: asyncio.Future[None] | None = None

    def settle(self, outcome: Batch | Exception) -> None:
        self.outcome = outcome
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class FileJournal:
    def __init__(self, path: str, desk: Desk, still_owned: Callable[[], bool], disk: Disk) -> None:
        self._path = path
        self._desk = desk
        self._still_owned = still_owned
        self._disk = disk
        self._head = desk.head
        self._seq = 0
        self._waiting: list[_Entry] = []
        self._leading = False
        self._alone = 0  # how many commits in a row nobody joined
        self._refusal: HoldfastError | None = None
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._inode = os.fstat(self._fd).st_ino

    @property
    def head(self) -> Head:
        return self._head

    async def append(self, *drafts: Draft | Event, expect: Position | None = None) -> Batch:
        if self._refusal is not None:
            raise _again(self._refusal)
        entry = _Entry(drafted(drafts), expect)
        self._waiting.append(entry)
        if self._leading:
            entry.waiter = asyncio.get_running_loop().create_future()
            await entry.waiter
        else:
            self._leading = True
            try:
                if self._alone < _SURELY_ALONE or self._alone % _LOOK_AGAIN == 0:
                    await asyncio.sleep(0)  # whoever is ready joins this commit
            finally:  # also when cancelled: others wait for it
                entries, self._waiting, self._leading = self._waiting, [], False
                self._alone = self._alone + 1 if len(entries) == 1 else 0
                self._commit(entries)
        if isinstance(entry.outcome, Batch):
            return entry.outcome
        assert entry.outcome is not None, "a commit settles every entry"
        raise entry.outcome

    async def close(self) -> None:
        try:
            if self._leading:
                with suppress(HoldfastError):  # whose events they were is told by `append`
                    await self.append()  # joins the commit that is under way, and so outlasts it
        finally:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
            self._refusal = self._refusal or StorageFailed(f"the journal {self._path} is closed")

    def _commit(self, entries: Sequence[_Entry]) -> None:
        stamp = Stamp(self._desk, self._head, self._seq)
        stamped: list[tuple[_Entry, Batch]] = []
        for entry in entries:
            try:
                check_expected(stamp.position, entry.expect)
                stamped.append((entry, stamp.lines(entry.drafts)))
            except Exception as refusal:  # noqa: BLE001 - this entry's own fault; the others go on
                entry.settle(refusal)
        whole = Batch(self._head.position, b"".join(batch.data for _, batch in stamped))
        try:
            self._write(whole.data)
            self._head, self._seq = stamp.head, stamp.seq
            self._desk.written(whole)
        except BaseException as error:
            self._refusal = error if isinstance(error, HoldfastError) else self._poisoned(error)
            for entry, _ in stamped:
                entry.settle(_again(self._refusal))
            if not isinstance(error, Exception):
                raise
        else:
            for entry, batch in stamped:
                entry.settle(batch)

    def _write(self, data: bytes) -> None:
        if data:
            self._check_ground()
            try:
                write_all(self._disk, self._fd, data)
                self._disk.sync(self._fd)
            except BaseException:
                self._take_back()
                raise

    def _take_back(self) -> None:
        """Cut off what was not acknowledged.

        After a failed sync it can be read, and yet it may never reach the disk: the kernel does not try again, and
        a later sync succeeds without it.
        """
        with suppress(OSError):
            self._disk.truncate(self._fd, self._head.position)

    def _check_ground(self) -> None:
        """That this is still our log, and that it ends where we left it."""
        if not self._still_owned():
            raise Fenced(f"{self._path} has another owner now; this process stops writing to it")
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            found = None
        if found is None or found.st_ino != self._inode:
            raise Fenced(f"{self._path} was moved or deleted under its owner; nothing more is written to it")
        if found.st_size != self._head.position:
            raise Fenced(
                f"{self._path} is {found.st_size} bytes long, its owner left it at {self._head.position}: "
                "something else wrote to it; nothing more is written"
            )

    def _poisoned(self, error: BaseException) -> StorageFailed:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        return StorageFailed(
            f"cannot write {self._path}: {reason}; nothing of it was acknowledged, free the disk and resume"
        )


def _again(refusal: HoldfastError) -> HoldfastError:
    """The same refusal for one more task: an error that many raise gathers the traceback of each."""
    return type(refusal)(*refusal.args)
