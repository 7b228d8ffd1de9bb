"""Waiting for a condition: never for a time."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from holdfast.leaf.errors import HoldfastError

_PACES, _SLOWEST = (1, 5, 20), 60
PATIENCE = float(
    os.environ.get("HOLDFAST_TEST_PATIENCE_S", "300")
)  # seconds after which a test that waits is a test that fails: none needs so long, however busy it is
_MOMENT = 0.001  # others have work to do


async def ticks(count: int) -> None:
    """Give way so many times: others get on, no time has to pass."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what the kernel does sets no event
            await asyncio.sleep(_MOMENT)


async def at_some_pace(attempt: Callable[[int], Awaitable[None]]) -> None:
    """Try something that is about short times with ever longer ones: on a busy machine the short ones mean nothing.

    The attempt is given by how much its times are to be longer. What fails at every pace fails.
    """
    for slower in _PACES:
        with suppress(AssertionError, HoldfastError, pytest.fail.Exception):
            return await attempt(slower)
    return await attempt(_SLOWEST)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
