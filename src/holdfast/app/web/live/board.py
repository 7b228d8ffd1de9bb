"""The list of runs, watched once for all clients."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from holdfast.app.tui.attention import attention_of
from holdfast.app.web.shapes.board import RunList, RunRow, row_of
from holdfast.engine.home import Home
from holdfast.engine.queries.live.watch_runs import Overview, watch_all_runs
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.leaf.errors import HoldfastError

_RETRY_S = 5.0


class BoardChange(NamedTuple):
    """The rows that changed, the runs that are gone, and the runs whose status is another."""

    changed: dict[str, RunRow]
    removed: list[str]
    restated: list[str]


class Board:
    """All runs as they change. Listening costs nothing while nothing changes."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._listeners: set[Callable[[BoardChange], None]] = set()
        self.rows: dict[str, RunRow] = {}
        self.unwatched = 0
        self._known: dict[str, ListedRun] = {}
        self._is_current = asyncio.Event()

    async def watch(self) -> None:
        """Follow all runs until cancelled; a failure, such as a full disk, is tried again."""
        while True:
            with suppress(HoldfastError, OSError, ExceptionGroup):
                await watch_all_runs(self._home, self._update)
            self._is_current.clear()
            await asyncio.sleep(_RETRY_S)

    def listen(self, listener: Callable[[BoardChange], None]) -> None:
        self._listeners.add(listener)

    def forget(self, listener: Callable[[BoardChange], None]) -> None:
        self._listeners.discard(listener)

    @property
    def listener_count(self) -> int:
        return len(self._listeners)

    async def listing(self) -> RunList:
        """Return all runs, the most urgent first, as they are now."""
        if not self._is_current.is_set():
            self._update(Overview(await list_runs(self._home), self.unwatched))
        return RunList(list(self.rows.values()), self.unwatched)

    async def refreshed(self) -> RunList:
        """Return all runs as they are on the disk now, whether or not a change was reported already."""
        self._update(Overview(await list_runs(self._home), self.unwatched))
        return await self.listing()

    @property
    def known(self) -> list[ListedRun]:
        return list(self._known.values())

    def status_of(self, run_id: str) -> str | None:
        row = self.rows.get(run_id)
        return row.status if row is not None else None

    def _update(self, overview: Overview) -> None:
        before, known = self.rows, self._known
        listed = sorted(overview.runs, key=attention_of)
        self._known = {run.id: run for run in listed}
        self.rows = {
            run.id: before[run.id] if known.get(run.id) == run and run.id in before else row_of(run) for run in listed
        }
        self.unwatched = overview.unwatched
        self._is_current.set()
        changed = {run_id: row for run_id, row in self.rows.items() if before.get(run_id) is not row}
        removed = [run_id for run_id in before if run_id not in self.rows]
        restated = [
            run_id for run_id, row in changed.items() if run_id in before and before[run_id].status != row.status
        ]
        if changed or removed:
            for listener in tuple(self._listeners):
                listener(BoardChange(changed, removed, restated))
