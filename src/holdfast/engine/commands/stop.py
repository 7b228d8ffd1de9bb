"""Asks a run to end its session and waits until it has ended."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

from holdfast.core.end_reason import EndReason
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.messages.schema import StopRequest
from holdfast.core.run_status import RunStatus
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.placement import is_cluster_run
from holdfast.leaf.errors import HoldfastError, NothingToDo, RunOwned, TimedOut
from holdfast.store.run import open_run

STOP_TIMEOUT_S = 60.0
# A cluster run with these gets an owner by itself: it waits for a worker, or for a limit's reset.
_PLACED_LATER = (RunStatus.INTERRUPTED, EndReason.PLANNED, EndReason.QUOTA, EndReason.OUTAGE, EndReason.DAY_BUDGET)


async def stop_run(home: Home, run_id: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop a run, and return when its session has ended."""
    try:
        async with asyncio.timeout(timeout_s):
            await request_stop(home, run_id)
            await wait_until_free(home, run_id)
            while await _is_without_owner(home, run_id, _PLACED_LATER):  # its owner died before it read the request
                await _record_stop(home, run_id)
                await wait_until_free(home, run_id)
    except TimeoutError:
        raise TimedOut(f"run {run_id} was asked to stop and has not within {timeout_s:g} s; it still will") from None


async def request_stop(home: Home, run_id: str) -> str | None:
    """Ask the run's owner to stop, and return the message's id. None if it has no owner yet and is stopped at once."""
    if await _is_without_owner(home, run_id, (*_PLACED_LATER, EndReason.STOPPED)):
        await _record_stop(home, run_id)
        return None
    return await _send_request(home, run_id)


async def _is_without_owner(home: Home, run_id: str, statuses: Sequence[str]) -> bool:
    """Whether this is a cluster run without an owner, in a status from which a worker may continue it."""
    if home.store_url is None:
        return False
    view = await view_run(home, run_id)
    return is_cluster_run(view.state) and view.holder is None and view.status in statuses


async def _record_stop(home: Home, run_id: str) -> None:
    """Record the stop in the log: a worker that gets the run reads it there. One that was faster is asked to stop."""
    try:
        async with open_run(home.store, run_id) as run:
            start = SessionStart(command="stop", pid=os.getpid())
            await run.begin_session(start, SessionEnd(reason=EndReason.STOPPED))
    except RunOwned:
        with suppress(NothingToDo):
            await _send_request(home, run_id)


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


async def _send_request(home: Home, run_id: str) -> str:
    holder = await home.store.holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await send(home, run_id, StopRequest(holder.epoch))
