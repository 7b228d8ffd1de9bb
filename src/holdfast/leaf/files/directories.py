"""Directories: their names, brought to the disk; what is in them, deleted; and whether something is there at all."""

import os
import shutil
from contextlib import suppress


def sync_directory(path: str) -> None:
    """Make its names durable: a file whose entry is lost is lost, and one whose entry comes back was never deleted."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_there(path: str) -> bool:
    """Whether there is something by this name, be it a link to nothing. Raises where the disk does not let us see."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_gone(path: str) -> bool:
    """True when there is nothing by that name; not of what merely cannot be looked at, as in another user's folder."""
    with suppress(OSError):
        return not is_there(path)
    return False


def remove_tree(path: str) -> None:
    """Delete it, also with folders in it that nobody may write in, as build tools make them for what they cache.

    What cannot be deleted stays; a link is deleted, not what it leads to.
    """
    if os.path.islink(path):
        with suppress(OSError):
            os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path) and not os.path.islink(path):
        _open_up(path)
        for folder, below, _ in os.walk(path):
            for name in below:
                _open_up(os.path.join(folder, name))
        shutil.rmtree(path, ignore_errors=True)


def _open_up(folder: str) -> None:
    if not os.path.islink(folder):
        with suppress(OSError):
            os.chmod(folder, 0o700)
