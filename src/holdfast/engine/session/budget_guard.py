"""Ends the session when the budget of the day or of the repository is spent, also in the middle of a turn."""

import asyncio
from collections.abc import Callable

from holdfast.core.config.operations import Budgets
from holdfast.core.day_spending import SpendingLimits, exceeded
from holdfast.core.end_reason import EndReason
from holdfast.core.notify.schedule import day_of
from holdfast.engine.home import Home
from holdfast.engine.workspace.machine import machine_id
from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.base import Store

_PAUSE_S = 1.0  # between two counts: agents may report usage many times a second


def budget_name(home: Home, workspace: Workspace) -> str:
    """Return the name of a repository's budget. In a database a path alone may be another repository's elsewhere."""
    if workspace.info.remote is not None:
        return workspace.info.remote
    path = workspace.repository.common_dir
    return path if home.store_url is None else f"{machine_id(home)}:{path}"


class BudgetGuard:
    """Counts what this run spends, together with all others of the store."""

    def __init__(self, store: Store, run_id: str, repository: str, budgets: Budgets, clock: WallClock) -> None:
        self._store = store
        self._run_id = run_id
        self._repository = repository
        self._limits = SpendingLimits(
            budgets.day_tokens, budgets.day_dollars, budgets.repository_tokens, budgets.repository_dollars
        )
        self._clock = clock
        self._used = asyncio.Event()
        self.problem: str | None = None

    def usage_recorded(self) -> None:
        self._used.set()

    async def check(self) -> EndReason | None:
        """Count what is not counted yet. Returns why the session must end, if it must."""
        if not self._limits.is_set:
            return None
        spending = await self._store.count_spending(self._run_id, self._repository)
        setting = exceeded(spending, self._limits, day_of(self._clock.now()), self._repository)
        if setting is None:
            return None
        limit = getattr(self._limits, setting)
        self.problem = f"budgets.{setting} = {limit:g} is spent"
        return EndReason.DAY_BUDGET if setting.startswith("day") else EndReason.REPOSITORY_BUDGET

    async def watch(self, on_exceeded: Callable[[EndReason], None]) -> None:
        """Call `on_exceeded` once a budget is spent, and return. Looks after each recorded usage."""
        if not self._limits.is_set:
            return
        while True:
            reason = await self.check()
            if reason is not None:
                on_exceeded(reason)
                return
            await asyncio.sleep(_PAUSE_S)
            await self._used.wait()
            self._used.clear()
