"""The names in a directory, brought to the disk."""

import os


def sync_directory(path: str) -> None:
    """Make them durable: a file whose entry is lost is lost, and one whose entry comes back was never deleted."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
