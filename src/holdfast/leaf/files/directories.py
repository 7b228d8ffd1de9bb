"""Directories: sync their entries, delete them with their content, and test whether a path exists."""

import os
import shutil
from contextlib import suppress


def sync_directory(path: str) -> None:
    """Make the entries durable. After a power cut an unsynced new file is missing and an unsynced deletion undone."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def path_exists(path: str) -> bool:
    """Whether a path exists, also as a dangling link. Raises `OSError` when that cannot be determined."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_missing(path: str) -> bool:
    """Whether a path certainly does not exist. False when it cannot be checked, as in another user's folder."""
    with suppress(OSError):
        return not path_exists(path)
    return False


def remove_tree(path: str) -> None:
    """Delete a tree, including read-only folders such as those that build tools create for their caches.

    What cannot be deleted stays. Of a link, only the link is deleted.
    """
    if os.path.islink(path):
        with suppress(OSError):
            os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path) and not os.path.islink(path):
        _make_writable(path)
        for folder, below, _ in os.walk(path):
            for name in below:
                _make_writable(os.path.join(folder, name))
        shutil.rmtree(path, ignore_errors=True)


def _make_writable(folder: str) -> None:
    if not os.path.islink(folder):
        with suppress(OSError):
            os.chmod(folder, 0o700)
