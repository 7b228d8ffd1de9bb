"""Asking a run to end its session, and waiting until it has."""

import asyncio

from holdfast.engine.inbox.send import STOP, StopRequest, put_message
from holdfast.engine.queries.wait import until_free
from holdfast.leaf.errors import NothingToDo, TimedOut
from holdfast.store.files.store import FileStore

PATIENCE = 60.0  # seconds


async def stopped(home: str, run_id: str, patience: float = PATIENCE) -> None:
    await ask_to_stop(home, run_id)
    try:
        await asyncio.wait_for(until_free(home, run_id), patience)
    except TimeoutError:
        raise TimedOut(f"run {run_id} was asked to stop and has not within {patience:g} s; it still will") from None


async def ask_to_stop(home: str, run_id: str) -> str:
    holder = await FileStore(home).holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await put_message(home, run_id, STOP, StopRequest(holder.epoch))
