"""All runs as they move: told anew whenever one is made, goes on, asks, ends, dies or is taken away.

No polling: the kernel tells of every change in a run's folder, and when a runner dies (its lock is free). Listing opens
only the logs that moved.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, Self

from holdfast.core.run_status import RunStatus
from holdfast.engine.naming import run_ids
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.engine.queries.wait import wait_until_free
from holdfast.leaf.errors import StorageFailed
from holdfast.store.files.layout import run_folder, runs_folder
from holdfast.store.files.watch import Watcher

_MIN_INTERVAL_S = 0.25  # seconds: agents write many lines in one, and nobody reads that fast


class Overview(NamedTuple):
    """Every run. `unwatched` is how many of them the kernel would not watch: what they do is seen late."""

    runs: Sequence[ListedRun]
    unwatched: int = 0


async def watch_all_runs(home: str, on_change: Callable[[Overview], None]) -> None:
    """Until this is cancelled."""
    os.makedirs(runs_folder(home), exist_ok=True)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        watch = await stack.enter_async_context(_RunFolders(home))
        at_work: set[str] = set()
        while True:
            watch.changed.clear()
            await watch.watch_only(run_ids(home))
            runs = await asyncio.to_thread(list_runs, home)
            for run in runs:
                if run.status == RunStatus.RUNNING and run.id not in at_work:
                    at_work.add(run.id)
                    group.create_task(_report_end(home, run.id, at_work, watch.changed))
            on_change(Overview(runs, watch.unwatched))
            await watch.changed.wait()
            await asyncio.sleep(_MIN_INTERVAL_S)


async def _report_end(home: str, run_id: str, running: set[str], changed: asyncio.Event) -> None:
    """A runner that is killed writes nothing."""
    await wait_until_free(home, run_id)
    running.discard(run_id)
    changed.set()


class _RunFolders:
    """On the folder of every run, and on the one in which they are made."""

    def __init__(self, home: str) -> None:
        self.changed = asyncio.Event()
        self.unwatched = 0
        self._home = home
        self._watcher = Watcher()
        self._watched: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        self._watched[""] = await self._watch_folder(runs_folder(self._home))
        return self

    async def __aexit__(self, *_: object) -> None:
        for one in self._watched.values():
            await one.aclose()

    async def watch_only(self, run_ids: Sequence[str]) -> None:
        """Watch these, and no others."""
        for run_id in self._watched.keys() - {"", *run_ids}:
            await self._watched.pop(run_id).aclose()
        self.unwatched = 0
        for run_id in run_ids:
            if run_id not in self._watched:
                try:
                    self._watched[run_id] = await self._watch_folder(run_folder(self._home, run_id))
                except StorageFailed:
                    self.unwatched += os.path.isdir(run_folder(self._home, run_id))

    async def _watch_folder(self, folder: str) -> AsyncExitStack:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._watcher.changes(folder, self.changed))
            return stack.pop_all()
