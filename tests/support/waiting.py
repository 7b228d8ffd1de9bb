"""Waiting for a condition: never for a time."""

import asyncio
import os
from collections.abc import Callable

_PATIENCE = 60.0  # seconds after which a test that waits is a test that fails
_MOMENT = 0.001  # others have work to do


async def ticks(count: int) -> None:
    """Give way so many times: others get on, no time has to pass."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not condition():  # noqa: ASYNC110 - what the kernel does sets no event
            await asyncio.sleep(_MOMENT)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
