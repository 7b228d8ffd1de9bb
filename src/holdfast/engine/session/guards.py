"""What ends a session from outside its work: a disk that fills up, a budget that is spent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast.core.end_reason import EndReason
from holdfast.engine.session.budget_guard import BudgetGuard
from holdfast.engine.session.disk_guard import DiskGuard
from holdfast.leaf.errors import HoldfastError

_BUDGETS = (EndReason.DAY_BUDGET, EndReason.REPOSITORY_BUDGET)


class Guards:
    def __init__(self, disk: DiskGuard, budget: BudgetGuard) -> None:
        self._disk = disk
        self._budget = budget

    @asynccontextmanager
    async def watching(self, stop: Callable[[EndReason], None]) -> AsyncIterator[None]:
        """Call `stop` when the session must end: at once, if a budget is spent already.

        What cannot be watched any more ends the session, too: the error is raised at the end.
        """
        reason = await self._budget.check()
        if reason is not None:
            stop(reason)
        failures: list[HoldfastError | OSError] = []

        async def watch(watching: Awaitable[None]) -> None:
            try:
                await watching
            except (HoldfastError, OSError) as error:
                failures.append(error)
                stop(EndReason.ERROR)

        disk = self._disk.watch(lambda: stop(EndReason.DISK_SPACE))
        watchers = [asyncio.create_task(watch(each)) for each in (disk, self._budget.watch(stop))]
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        if failures:
            raise failures[0]
        await self._budget.check()  # what the last turns reported

    def problem(self, reason: str) -> str | None:
        """What ended the session, with the numbers; None if it was no guard."""
        if reason == EndReason.DISK_SPACE:
            return self._disk.problem() or "there was little disk space"
        return self._budget.problem if reason in _BUDGETS else None
