"""Folders in memory, where a sync costs nothing: for tests that cut no power and fill no disk."""

import os
from tempfile import TemporaryDirectory

MEMORY = "/dev/shm"

_ROOM = 1 << 30  # bytes: a container may have a few megabytes


def in_memory() -> TemporaryDirectory[str]:
    """One that is gone with its `with`. Where there is not enough memory to be had like this it is on a disk."""
    return TemporaryDirectory(dir=MEMORY if _has_room() else None)


def _has_room() -> bool:
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= _ROOM
