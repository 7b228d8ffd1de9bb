"""The few calls by which bytes reach a disk and stay there. Tests put a disk that fails or forgets in their place."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple


class Disk(NamedTuple):
    write: Callable[[int, bytes | memoryview], int] = os.write
    sync: Callable[[int], None] = os.fdatasync
    truncate: Callable[[int, int], None] = os.ftruncate


REAL = Disk()


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Every byte, however many calls it takes."""
    done = disk.write(fd, data)
    while done < len(data):
        done += disk.write(fd, memoryview(data)[done:])


def sync_directory(path: str) -> None:
    """Make the names in a directory durable: a file whose entry is lost is lost."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
