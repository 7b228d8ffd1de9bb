"""The few calls that write bytes to a disk durably. Tests replace them with a disk that fails or forgets."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from holdfast.leaf import failpoints
from holdfast.leaf.failpoints import Failpoint
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.sync import drop_unwritten_pages


class Disk(NamedTuple):
    write: Callable[[int, bytes | memoryview], int] = os.write
    sync: Callable[[int], None] = os.fdatasync
    truncate: Callable[[int, int], None] = os.ftruncate
    drop_unwritten: Callable[[int], None] = drop_unwritten_pages


REAL_DISK = Disk()
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def disk_advice(error: BaseException) -> str:
    """What the user must do before the run can continue."""
    is_full = isinstance(error, OSError) and error.errno in _NO_SPACE
    return "free disk space, then resume the run" if is_full else "check the disk, then resume the run"


class AppendFailpoints:
    """The failpoints of one kind of append: before it, in the middle of its bytes, and after its sync."""

    def __init__(self, name: str) -> None:
        self.before = Failpoint(f"{name}.before")
        self.torn = Failpoint(f"{name}.torn")
        self.after = Failpoint(f"{name}.after")

    def wrap(self, disk: Disk) -> Disk:
        """Return the disk with the failpoints; the same disk when none is armed."""
        return self.wrap_write(disk)._replace(sync=partial(self._sync, disk)) if failpoints.is_armed() else disk

    def wrap_write(self, disk: Disk) -> Disk:
        """Like `wrap`, but without `after`: the caller triggers it, because more work follows the sync."""
        return disk._replace(write=partial(self._write, disk)) if failpoints.is_armed() else disk

    def _write(self, disk: Disk, fd: int, data: bytes | memoryview) -> int:
        self.before()
        if self.torn.is_due():
            disk.write(fd, data[: len(data) // 2])
            failpoints.trigger_failpoint()
        return disk.write(fd, data)

    def _sync(self, disk: Disk, fd: int) -> None:
        disk.sync(fd)
        self.after()


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write every byte, however many calls it takes."""
    written = disk.write(fd, data)
    while written < len(data):
        written += disk.write(fd, memoryview(data)[written:])


def sync_or_drop(disk: Disk, fd: int) -> None:
    """Sync a file; on an error, drop the pages that are not on the disk, so that no process reads them."""
    try:
        disk.sync(fd)
    except OSError:
        disk.drop_unwritten(fd)
        raise


def make_directories(path: str) -> None:
    """Like `os.makedirs`, but each new name is synced in its parent directory."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directories(parent)
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(path, 0o700)
    sync_directory(parent)


def replace(path: str, data: bytes, disk: Disk = REAL_DISK) -> None:
    """Replace the content of a file atomically: after a crash it is the old or the new one, never a mix.

    For one writer at a time: the next one overwrites the temporary file of a killed one.
    """
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        write_all(disk, fd, data)
        disk.sync(fd)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))
