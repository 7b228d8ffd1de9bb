"""Asks a run to end its session and waits until it has ended."""

import asyncio

from holdfast.core.messages.schema import StopRequest
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.leaf.errors import NothingToDo, TimedOut

STOP_TIMEOUT_S = 60.0


async def stop_run(home: Home, run_id: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
    await request_stop(home, run_id)
    try:
        await asyncio.wait_for(wait_until_free(home, run_id), timeout_s)
    except TimeoutError:
        raise TimedOut(f"run {run_id} was asked to stop and has not within {timeout_s:g} s; it still will") from None


async def request_stop(home: Home, run_id: str) -> str:
    holder = await home.store.holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await send(home, run_id, StopRequest(holder.epoch))
