"""Waits until no process works on a run."""

from contextlib import aclosing

from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, end_of_log, view_run
from holdfast.engine.queries.placement import is_cluster_run

_BETWEEN_WORKERS = (EndReason.PLANNED, RunStatus.INTERRUPTED)


async def wait_until_free(home: Home, run_id: str) -> None:
    """Return when no process owns the run. An owner that dies frees it too."""
    await home.store.wait_until_released(run_id)


def is_between_workers(view: RunView) -> bool:
    """Whether a cluster run waits for its first worker, or for the next one, or for that one's session to start."""
    return is_cluster_run(view.state) and view.status in _BETWEEN_WORKERS


async def wait_until_placed(home: Home, run_id: str) -> None:
    """Return when a cluster run is not between workers any more."""
    while True:
        end = await end_of_log(home, run_id)
        if not is_between_workers(await view_run(home, run_id)):
            return
        async with aclosing(home.store.log(run_id).follow(end)) as batches:  # type: ignore[type-var]
            async for _ in batches:
                break


async def wait_until_ended(home: Home, run_id: str) -> None:
    """Return when the run has stopped. A cluster run that is between workers has not."""
    while True:
        await wait_until_free(home, run_id)
        if home.store_url is None:
            return
        view = await view_run(home, run_id)
        if view.holder is None and not is_between_workers(view):
            return
        await wait_until_placed(home, run_id)
