"""Asks a run to end its session and waits until it has ended."""

import asyncio

from holdfast.core.messages.schema import StopRequest
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.placement import is_cluster_run
from holdfast.leaf.errors import HoldfastError, NothingToDo, TimedOut

STOP_TIMEOUT_S = 60.0
_POLL_INTERVAL_S = 0.2


async def stop_run(home: Home, run_id: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
    continues = await _continues_by_itself(home, run_id)
    message = None if continues else await request_stop(home, run_id)
    try:
        async with asyncio.timeout(timeout_s):
            if message is not None:
                await wait_until_free(home, run_id)
            while await _continues_by_itself(home, run_id):
                await _stop_next_owner(home, run_id)
    except TimeoutError:
        if await _continues_by_itself(home, run_id):
            raise TimedOut(
                f"run {run_id} has not stopped within {timeout_s:g} s: it lost its worker, and no other one has taken "
                f"it over yet. Stop it again when one has: holdfast stop {run_id}"
            ) from None
        raise TimedOut(f"run {run_id} was asked to stop and has not within {timeout_s:g} s; it still will") from None


async def _continues_by_itself(home: Home, run_id: str) -> bool:
    """Whether a worker of the cluster died or handed the run over, so that another one is about to continue it."""
    if home.store_url is None:
        return False
    view = await view_run(home, run_id)
    return is_cluster_run(view.state) and view.holder is None and view.status == RunStatus.INTERRUPTED


async def _stop_next_owner(home: Home, run_id: str) -> None:
    """Wait for an owner, and stop it. A stop is for one owner: the next one ignores what the last one did not read."""
    while (holder := await home.store.holder(run_id)) is None:  # noqa: ASYNC110 - another machine sets no event
        await asyncio.sleep(_POLL_INTERVAL_S)
    await send(home, run_id, StopRequest(holder.epoch))
    await wait_until_free(home, run_id)


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
