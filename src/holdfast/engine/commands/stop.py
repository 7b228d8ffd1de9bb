"""Asks a run to end its session and waits until it has ended."""

import asyncio

from holdfast.core.messages.schema import StopRequest
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.leaf.errors import HoldfastError, NothingToDo, TimedOut

STOP_TIMEOUT_S = 60.0


async def stop_run(home: Home, run_id: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
    await request_stop(home, run_id)
    try:
        await asyncio.wait_for(wait_until_free(home, run_id), timeout_s)
    except TimeoutError:
        raise TimedOut(f"run {run_id} was asked to stop and has not within {timeout_s:g} s; it still will") from None


async def stop_all_runs(home: Home, timeout_s: float = STOP_TIMEOUT_S) -> dict[str, str | None]:
    """Ask every run at work to stop, all at once. Returns the runs that were, each with what went wrong."""
    run_ids = [run_id for run_id in home.run_ids() if home.is_owned(run_id)]
    results = await asyncio.gather(*(stop_run(home, run_id, timeout_s) for run_id in run_ids), return_exceptions=True)
    problems: dict[str, str | None] = {}
    for run_id, result in zip(run_ids, results, strict=True):
        if isinstance(result, NothingToDo):  # it ended meanwhile
            problems[run_id] = None
        elif isinstance(result, BaseException) and not isinstance(result, HoldfastError):
            raise result
        else:
            problems[run_id] = str(result) if result is not None else None
    return problems


async def request_stop(home: Home, run_id: str) -> str:
    holder = await home.store.holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await send(home, run_id, StopRequest(holder.epoch))
