"""Folders in memory, where a sync costs nothing: for tests that cut no power and fill no disk."""

import os
from tempfile import TemporaryDirectory

MEMORY = "/dev/shm"


def in_memory() -> TemporaryDirectory[str]:
    """One that is gone with its `with`. Where there is no memory to be had like this it is on a disk."""
    return TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None)
