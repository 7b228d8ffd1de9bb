"""Wait for any process to exit, child or not, through a pidfd."""

import asyncio
import os

from holdfast.leaf.process.proc import open_pidfd


async def wait_for_exit(pid: int) -> None:
    """Return when the process has exited; at once when there is none."""
    try:
        pidfd = open_pidfd(pid)
    except ProcessLookupError:
        return
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
