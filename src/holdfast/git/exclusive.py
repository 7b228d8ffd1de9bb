"""One Holdfast at a time where several would read a repository and then change what they read."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.leaf.errors import Denied

WAIT_S = 120.0  # for another to come to its end: it may be running the user's hooks, or asking for a key
_MOMENT_S = 0.05


@asynccontextmanager
async def exclusive(common_dir: str, advice: str) -> AsyncIterator[None]:
    """Others who come this way wait. The kernel frees it with whoever dies in it, and no file is left behind.

    `Denied` when it was not free in time, with the advice. Git itself does not know of it.
    """
    fd = os.open(common_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await _locked(fd, common_dir, advice)
        yield
    finally:
        os.close(fd)


async def _locked(fd: int, common_dir: str, advice: str) -> None:
    until = asyncio.get_running_loop().time() + WAIT_S
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if asyncio.get_running_loop().time() > until:
                raise Denied(
                    f"another holdfast is merging in {common_dir} for more than {WAIT_S:.0f} s; {advice}"
                ) from None
            await asyncio.sleep(_MOMENT_S)
        except OSError:
            return None  # a file system without such locks: then a branch that moved shows when it is set
