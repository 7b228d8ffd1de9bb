"""Asks a run to end its session and waits until it has ended."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

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
from holdfast.leaf.process.identity import ProcessIdentity
from holdfast.store.base import Holder
from holdfast.store.run import open_run

STOP_TIMEOUT_S = 60.0
# A cluster run with these gets an owner by itself: it waits for a worker, or for a limit's reset.
_PLACED_LATER = (RunStatus.INTERRUPTED, EndReason.PLANNED, EndReason.QUOTA, EndReason.OUTAGE, EndReason.DAY_BUDGET)


class StoppedRuns(NamedTuple):
    problems: dict[str, str | None]  # of the runs that were asked to stop: what went wrong, if anything
    elsewhere: dict[str, str]  # the host of each run that another machine works on


async def stop_run(home: Home, run_id: str, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stop a run, and return when its session has ended."""
    await request_stop(home, run_id)
    try:
        async with asyncio.timeout(timeout_s):
            await wait_until_free(home, run_id)
            while await _is_without_owner(home, run_id, _PLACED_LATER):  # its owner died before it read the request
                with suppress(NothingToDo):  # it has ended meanwhile
                    await request_stop(home, run_id)
                await wait_until_free(home, run_id)
    except TimeoutError:
        raise TimedOut(f"run {run_id} was asked to stop and has not within {timeout_s:g} s; it still will") from None


async def request_stop(home: Home, run_id: str) -> str | None:
    """Ask the run's owner to stop, and return the message's id. None if it has no owner yet and is stopped at once."""
    while await _is_without_owner(home, run_id, (*_PLACED_LATER, EndReason.STOPPED)):
        if await _record_stop(home, run_id):
            return None
        with suppress(NothingToDo):  # the worker that was faster has ended
            return await _send_request(home, run_id)
    return await _send_request(home, run_id)


async def _is_without_owner(home: Home, run_id: str, statuses: Sequence[str]) -> bool:
    """Whether this is a cluster run without an owner, in a status from which a worker may continue it."""
    if home.store_url is None:
        return False
    view = await view_run(home, run_id)
    return is_cluster_run(view.state) and view.holder is None and view.status in statuses


async def _record_stop(home: Home, run_id: str) -> bool:
    """Record the stop in the log, where a worker that gets the run reads it. False if a worker was faster."""
    try:
        async with open_run(home.store, run_id) as run:
            start = SessionStart(command="stop", pid=os.getpid())
            await run.begin_session(start, SessionEnd(reason=EndReason.STOPPED))
    except RunOwned:
        return False
    return True


async def stop_all_runs(home: Home, timeout_s: float = STOP_TIMEOUT_S, *, everywhere: bool = False) -> StoppedRuns:
    """Ask every run that this machine works on to stop, all at once; `everywhere`: those of all machines."""
    owned = [run_id for run_id in home.run_ids() if home.is_owned(run_id)]
    hosts = {} if everywhere else await _hosts_elsewhere(home, owned)
    run_ids = [run_id for run_id in owned if run_id not in hosts]
    results = await asyncio.gather(*(stop_run(home, run_id, timeout_s) for run_id in run_ids), return_exceptions=True)
    problems: dict[str, str | None] = {}
    for run_id, result in zip(run_ids, results, strict=True):
        if isinstance(result, NothingToDo):  # it ended meanwhile
            problems[run_id] = None
        elif isinstance(result, BaseException) and not isinstance(result, HoldfastError):
            raise result
        else:
            problems[run_id] = str(result) if result is not None else None
    return StoppedRuns(problems, hosts)


async def _hosts_elsewhere(home: Home, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the host of each of these runs that is not at work on this machine and in this home."""
    if home.store_url is None:
        return {}
    holders = {run_id: await home.store.holder(run_id) for run_id in run_ids}
    return {
        run_id: holder.host
        for run_id, holder in holders.items()
        if holder is not None and not (_is_on_this_machine(holder) and home.has_worked_here(run_id))
    }


def _is_on_this_machine(holder: Holder) -> bool:
    return ProcessIdentity(holder.pid, holder.start_time, holder.boot_id).is_alive()


async def _send_request(home: Home, run_id: str) -> str:
    holder = await home.store.holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await send(home, run_id, StopRequest(holder.epoch))
