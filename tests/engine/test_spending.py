"""The spending of a home, while another process has its file, or the file is damaged."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.config.operations import Budgets
from holdfast.core.end_reason import EndReason
from holdfast.engine.home import Home
from holdfast.engine.session.budget_guard import BudgetGuard
from holdfast.engine.session.disk_guard import DiskGuard
from holdfast.engine.session.guards import Guards
from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.files.spending import SPENDING
from tests.cli.runs import make_run
from tests.support.wait import PATIENCE

RUN = "spend-abc234"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    make_run(os.fspath(tmp_path), RUN)
    return Home(os.fspath(tmp_path))


@contextmanager
def _in_use(home: Home) -> Iterator[None]:
    fd = os.open(home.file("spending.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


async def test_process_goes_on_while_another_has_the_spending(home: Home) -> None:
    with _in_use(home):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(home.store.count_spending(RUN, "/repo"), 0.05)
        counting = asyncio.create_task(home.store.count_spending(RUN, "/repo"))
    assert (await counting).repositories == {}
    assert f'"{RUN}":' in Path(home.file(SPENDING)).read_text(encoding="utf-8")


async def test_session_ends_when_its_spending_cannot_be_counted_any_more(home: Home) -> None:
    budget = BudgetGuard(home.store, RUN, "/repo", Budgets(day_tokens=1000), WallClock())
    guards = Guards(DiskGuard([], 0), budget)
    stopped = asyncio.Event()
    reasons: list[EndReason] = []

    def stop(reason: EndReason) -> None:
        reasons.append(reason)
        stopped.set()

    async def work() -> None:
        async with guards.watching(stop):
            Path(home.file(SPENDING)).write_text("{", encoding="utf-8")
            budget.usage_recorded()
            await asyncio.wait_for(stopped.wait(), PATIENCE)
            Path(home.file(SPENDING)).unlink()  # that it can be counted again does not hide that it could not

    with pytest.raises(StorageFailed, match="damaged"):
        await work()
    assert reasons == [EndReason.ERROR]
