"""A lock for operations that read a repository and then change what they read: one Holdfast at a time."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.leaf.errors import Denied

WAIT_S = 120.0  # the other process may be running the user's hooks, or asking for a signing key
_POLL_INTERVAL_S = 0.05


@asynccontextmanager
async def lock_repository(common_dir: str, advice: str) -> AsyncIterator[None]:
    """Hold the lock of a repository. The kernel releases it when its holder dies, and it leaves no file behind.

    Raises `Denied` with the advice when the lock stays taken. Git itself does not respect this lock.
    """
    fd = os.open(common_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await _wait_for_lock(fd, common_dir, advice)
        yield
    finally:
        os.close(fd)


async def _wait_for_lock(fd: int, common_dir: str, advice: str) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if asyncio.get_running_loop().time() > deadline:
                raise Denied(
                    f"another holdfast has been merging in {common_dir} for more than {WAIT_S:.0f} s; {advice}"
                ) from None
            await asyncio.sleep(_POLL_INTERVAL_S)
        except OSError:
            return None  # the file system has no such locks: then setting the ref fails if the branch moved
