"""Ownership: a kernel lock on `owner.lock`, held for the owner's life and free the moment it dies.

The file also says who holds it, for people to read, and carries the fencing epoch. The lock decides; the
record only explains. It is overwritten in place by one small write, always of the same length, so that a reader
never finds half of it.
"""

import asyncio
import fcntl
import os
import socket
import time
from contextlib import ExitStack, suppress

import msgspec

from holdfast.core.log.codec import UNREADABLE
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import Owned, StorageFailed
from holdfast.leaf.process.identity import ProcessIdentity, myself
from holdfast.leaf.process.proc import is_dying
from holdfast.store.base import Holder
from holdfast.store.files.disk import REAL, write_all
from holdfast.store.files.lock import is_held

_RECORD = 512  # bytes: always the same, and no more than a disk writes at once
_PATIENCE = 1.0  # seconds in which somebody who dies, or only looks at the lock, has let go of it again


class _Record(msgspec.Struct):
    epoch: int = 0
    holder: Holder | None = None


class OwnerLock:
    def __init__(self, path: str, fd: int, record: _Record) -> None:
        self._path = path
        self._fd = fd
        self._record = record

    @property
    def epoch(self) -> int:
        return self._record.epoch

    def held(self) -> bool:
        """True while the lock that we hold is the one that others would take."""
        return _is_the_file_at(self._path, self._fd)

    def release(self) -> None:
        with suppress(OSError):  # the record only explains: closing is what lets go
            _write_record(self._fd, _Record(self._record.epoch))
        os.close(self._fd)


async def acquire(path: str, clock: Clock) -> OwnerLock:
    """Take the lock, or raise `Owned` with a line that names its holder."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            taken = _take(path, clock)
        except OSError as error:
            raise StorageFailed(f"cannot take {path}: {error.strerror}; the run was not changed") from error
        if isinstance(taken, OwnerLock):
            return taken
        if (taken.holder is not None and _lives(taken.holder)) or time.monotonic() > patience:
            raise Owned(_explain(path, taken.holder))
        await asyncio.sleep(0.01)


def _take(path: str, clock: Clock) -> OwnerLock | _Record:
    """The lock; or what the record says, when somebody else has it."""
    with ExitStack() as otherwise:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        otherwise.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_record(fd)
        if not _is_the_file_at(path, fd):
            return _Record()  # deleted between open and lock: that lock would guard nothing
        lock = OwnerLock(path, fd, _sign(fd, clock))
        otherwise.pop_all()
        return lock


def holder(path: str) -> Holder | None:
    """Who holds the lock now."""
    if not is_held(path):
        return None
    with open(path, "rb") as file:
        return _read_record(file.fileno()).holder


def _sign(fd: int, clock: Clock) -> _Record:
    me = myself()
    epoch = _read_record(fd).epoch + 1
    record = _Record(
        epoch,
        Holder(
            epoch=epoch,
            pid=me.pid,
            start_time=me.start_time,
            boot_id=me.boot_id,
            host=socket.gethostname(),
            since=clock(),
        ),
    )
    _write_record(fd, record)
    return record


def _write_record(fd: int, record: _Record) -> None:
    text = msgspec.json.encode(record)
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(REAL, fd, text.ljust(_RECORD))
    os.fdatasync(fd)


def _read_record(fd: int) -> _Record:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=_Record)
    except UNREADABLE:
        return _Record()  # new, or not ours: the lock itself decides


def _lives(holder: Holder) -> bool:
    if holder.host != socket.gethostname():
        return True  # on another machine, and its lock is held: nothing here can know better
    return ProcessIdentity(holder.pid, holder.start_time, holder.boot_id).is_alive() and not is_dying(holder.pid)


def _explain(path: str, holder: Holder | None) -> str:
    run = os.path.basename(os.path.dirname(path))
    if holder is None:
        return f"run {run} is owned by a process that left no name in {path}; wait for it to end"
    return (
        f"run {run} is owned by pid {holder.pid} on {holder.host} since {holder.since}; "
        f"follow it with `holdfast logs -f {run}`, or end that process first"
    )


def _is_the_file_at(path: str, fd: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False
