"""Runs are made once, listed, and missed loudly."""

import asyncio

import pytest

from holdfast.leaf.errors import NoSuchRun, RunExists
from holdfast.store.base import Head, Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START
from tests.support.logs import whole

MISSING = "nobody-aaaaaa"


async def test_there_are_no_runs_at_first(backend: Backend) -> None:
    assert list(await backend.store().run_ids()) == []


async def test_runs_are_listed_by_name(store: Store) -> None:
    for name in ("zeta-aaaaaa", "alpha-aaaaaa"):
        await store.create(name)
    assert list(await store.run_ids()) == ["alpha-aaaaaa", RUN, "zeta-aaaaaa"]


async def test_another_process_sees_the_run(backend: Backend, store: Store) -> None:
    assert list(await backend.store().run_ids()) == [RUN]


async def test_a_run_is_created_once(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    before = await whole(store, RUN)
    with pytest.raises(RunExists, match=RUN):
        await store.create(RUN)
    assert await whole(store, RUN) == before


async def test_of_many_creators_one_succeeds(backend: Backend) -> None:
    outcomes = await asyncio.gather(*(backend.store().create(RUN) for _ in range(8)), return_exceptions=True)
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, RunExists) for outcome in outcomes) == 7


async def test_a_new_run_is_empty(store: Store) -> None:
    assert await whole(store, RUN) == b""
    assert await store.log(RUN).torn_tail() == b""
    assert await store.snapshot(RUN) is None
    assert await store.holder(RUN) is None
    assert [received async for received in store.inbox(RUN).read()] == []
    async with open_run(store, RUN) as run:
        assert run.head == Head()
        assert run.state.lines == 0


async def test_opening_a_run_writes_nothing_before_it_begins(store: Store) -> None:
    async with open_run(store, RUN):
        pass
    assert await whole(store, RUN) == b""


async def test_a_missing_run_is_named(store: Store) -> None:
    with pytest.raises(NoSuchRun, match=MISSING):
        store.log(MISSING)
    with pytest.raises(NoSuchRun, match=MISSING):
        store.inbox(MISSING)
    with pytest.raises(NoSuchRun, match=MISSING):
        await store.holder(MISSING)
    with pytest.raises(NoSuchRun, match=MISSING):
        await store.snapshot(MISSING)
    with pytest.raises(NoSuchRun, match=MISSING):
        async with store.own(MISSING):
            pass
    assert list(await store.run_ids()) == [RUN]
