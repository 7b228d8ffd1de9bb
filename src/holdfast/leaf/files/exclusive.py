"""A lock for processes that read and then replace files in a folder. The kernel releases it when its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.leaf.files.disk import make_directories


@contextmanager
def lock_folder(folder: str) -> Iterator[None]:
    """Lock a folder, creating it if needed. Waits for other holders; does not block readers."""
    make_directories(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
