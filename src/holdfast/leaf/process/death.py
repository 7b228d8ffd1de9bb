"""Waiting for the end of a process, be it a child of ours or not: told by the kernel, by a handle on it."""

import asyncio
import os

from holdfast.leaf.process.proc import handle_of


async def death_of(pid: int) -> None:
    """Returns at once when there is no such process."""
    try:
        handle = handle_of(pid)
    except ProcessLookupError:
        return
    loop, dead = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, dead.set)
    try:
        await dead.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
