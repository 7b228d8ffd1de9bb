"""Tells whether a lock is held: all that listing runs needs to know about ownership, without slow imports."""

import fcntl
import os


def is_held(path: str) -> bool:
    """True when a process holds an exclusive lock on `path`. The check itself takes a shared lock for a moment."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)
