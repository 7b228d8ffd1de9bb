"""Being the only one who reads and then replaces what is in a folder: the kernel ends it with whoever dies in it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.store.files.disk import make_directories


@contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """The folder is made when it is not there. Others who come this way wait; those who only read are not kept."""
    make_directories(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
