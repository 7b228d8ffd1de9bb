"""All runs as they change: reported again whenever one is created, resumed, asks, ends, dies or is deleted.

It does not poll: the store reports changes, and the end of a runner. Listing opens only the logs that have changed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.runs import ListedRun, list_runs

_MIN_INTERVAL_S = 0.25  # agents write many lines in that time, and no person reads that fast


class Overview(NamedTuple):
    """All runs. `unwatched` counts those that the kernel refuses to watch: their changes are seen late."""

    runs: Sequence[ListedRun]
    unwatched: int = 0


async def watch_all_runs(home: Home, on_change: Callable[[Overview], None]) -> None:
    """Report all runs now and after every change, until cancelled."""
    async with home.store.watch_runs() as watch, asyncio.TaskGroup() as group:
        running: set[str] = set()
        while True:
            watch.changed.clear()
            await watch.watch_only(home.run_ids())
            runs = await list_runs(home)
            for run in runs:
                if run.status == RunStatus.RUNNING and run.id not in running:
                    running.add(run.id)
                    group.create_task(_report_end(home, run.id, running, watch.changed))
            on_change(Overview(runs, watch.unwatched))
            await watch.changed.wait()
            await asyncio.sleep(_MIN_INTERVAL_S)


async def _report_end(home: Home, run_id: str, running: set[str], changed: asyncio.Event) -> None:
    """Set `changed` when the runner ends: one that is killed writes nothing."""
    await wait_until_free(home, run_id)
    running.discard(run_id)
    changed.set()
