"""Ownership: a kernel lock on `owner.lock`, which the owner holds while it lives and the kernel releases at its death.

The file also names its holder, for people to read, and carries the fencing epoch. The lock decides; the record only
explains. It is overwritten in place by one small write of constant length, so that no reader sees half of it.
"""

import asyncio
import fcntl
import os
import socket
import time
from contextlib import ExitStack, suppress

import msgspec

from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import RunOwned, StorageFailed
from holdfast.leaf.files.disk import REAL_DISK, write_all
from holdfast.leaf.process.identity import ProcessIdentity, own_identity
from holdfast.leaf.process.proc import is_dying
from holdfast.store.base import Holder
from holdfast.store.files.lock import is_held

_RECORD_BYTES = 512  # constant, and no more than a disk writes at once
_ACQUIRE_WAIT_S = 1.0  # enough for a dying holder, or a process that only checks the lock, to release it


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

    def is_held(self) -> bool:
        """True while the file that we locked is still at the path where other processes look for it."""
        return _is_same_file(self._path, self._fd)

    def release(self) -> None:
        with suppress(OSError):  # the record only explains: closing the file releases the lock
            _write_record(self._fd, _Record(self._record.epoch))
        os.close(self._fd)


async def acquire(path: str, clock: Clock) -> OwnerLock:
    """Take the lock, or raise `RunOwned` with a message that names its holder."""
    deadline = time.monotonic() + _ACQUIRE_WAIT_S
    while True:
        try:
            result = _try_acquire(path, clock)
        except OSError as error:
            raise StorageFailed(f"cannot lock {path}: {error.strerror}; the run was not changed") from error
        if isinstance(result, OwnerLock):
            return result
        if (result.holder is not None and _is_alive(result.holder)) or time.monotonic() > deadline:
            raise RunOwned(_explain(path, result.holder))
        await asyncio.sleep(0.01)


def _try_acquire(path: str, clock: Clock) -> OwnerLock | _Record:
    """Return the lock; or the record of its holder, when another process has it."""
    with ExitStack() as on_failure:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        on_failure.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_record(fd)
        if not _is_same_file(path, fd):
            return _Record()  # deleted between open and lock: that lock would guard nothing
        lock = OwnerLock(path, fd, _claim(fd, clock))
        on_failure.pop_all()
        return lock


def current_holder(path: str) -> Holder | None:
    """Return the holder of the lock, if it is held."""
    if not is_held(path):
        return None
    with open(path, "rb") as file:
        return _read_record(file.fileno()).holder


def _claim(fd: int, clock: Clock) -> _Record:
    me = own_identity()
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
    write_all(REAL_DISK, fd, text.ljust(_RECORD_BYTES))
    os.fdatasync(fd)


def _read_record(fd: int) -> _Record:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=_Record)
    except DECODE_ERRORS:
        return _Record()  # new, or not ours: the lock itself decides


def _is_alive(holder: Holder) -> bool:
    if holder.host != socket.gethostname():
        return True  # on another machine, and the lock is held: we cannot check
    # In this order: one that ends in between is found dead, while of one that is gone nothing shows that it was dying.
    return not is_dying(holder.pid) and ProcessIdentity(holder.pid, holder.start_time, holder.boot_id).is_alive()


def _explain(path: str, holder: Holder | None) -> str:
    run = os.path.basename(os.path.dirname(path))
    if holder is None:
        return f"run {run} is owned by a process that is not named in {path}; wait until it ends"
    return (
        f"run {run} is owned by pid {holder.pid} on {holder.host} since {holder.since}; "
        f"follow it with `holdfast logs -f {run}`, or stop it with `holdfast stop {run}`"
    )


def _is_same_file(path: str, fd: int) -> bool:
    try:
        return os.stat(path).st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False
