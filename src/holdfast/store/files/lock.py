"""Is anybody holding this lock? The one question about ownership that listing runs needs, at no cost in imports."""

import fcntl
import os


def is_held(path: str) -> bool:
    """True when another open file holds `path` exclusively. Looking takes the lock for a moment, shared."""
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
