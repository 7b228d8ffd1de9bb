"""The few calls by which bytes reach a disk and stay there. Tests put a disk that fails or forgets in their place."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from holdfast.leaf import failpoints as crashing
from holdfast.leaf.failpoints import Point
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.sync import forget_unwritten


class Disk(NamedTuple):
    write: Callable[[int, bytes | memoryview], int] = os.write
    sync: Callable[[int], None] = os.fdatasync
    truncate: Callable[[int, int], None] = os.ftruncate
    forget: Callable[[int], None] = forget_unwritten


REAL = Disk()


class Appending:
    """The crash points of one kind of append: before it, in the middle of its bytes, and when it is on the disk."""

    def __init__(self, name: str) -> None:
        self.before = Point(f"{name}.before")
        self.torn = Point(f"{name}.torn")
        self.after = Point(f"{name}.after")

    def on(self, disk: Disk) -> Disk:
        """The same disk, unless this process is to be killed somewhere."""
        return self.writing_on(disk)._replace(sync=partial(self._sync, disk)) if crashing.is_on() else disk

    def writing_on(self, disk: Disk) -> Disk:
        """The same, where it is not over when it is synced: whoever writes says when it is."""
        return disk._replace(write=partial(self._write, disk)) if crashing.is_on() else disk

    def _write(self, disk: Disk, fd: int, data: bytes | memoryview) -> int:
        self.before()
        if self.torn.has_come():
            disk.write(fd, data[: len(data) // 2])
            crashing.strike()
        return disk.write(fd, data)

    def _sync(self, disk: Disk, fd: int) -> None:
        disk.sync(fd)
        self.after()


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Every byte, however many calls it takes."""
    done = disk.write(fd, data)
    while done < len(data):
        done += disk.write(fd, memoryview(data)[done:])


def sync_or_forget(disk: Disk, fd: int) -> None:
    """All of a file on the disk; or, with the error, nothing of it to be read that is not there."""
    try:
        disk.sync(fd)
    except OSError:
        disk.forget(fd)
        raise


def make_directories(path: str) -> None:
    """As `os.makedirs`, and each new name is durable in the directory above it."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directories(parent)
    with suppress(FileExistsError):  # another process was as quick
        os.mkdir(path, 0o700)
    sync_directory(parent)


def replace(path: str, data: bytes, disk: Disk = REAL) -> None:
    """Put `data` at `path` whole: after a crash there is the old content or the new, never a mixture.

    For one writer at a time: what a kill leaves of a new content is written over by the next.
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
