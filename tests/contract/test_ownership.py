"""One owner at a time. A dead one is no hindrance, and one that was replaced writes nothing more."""

import asyncio
import os

import pytest

from holdfast.leaf.errors import RunFenced, RunOwned
from holdfast.leaf.process.identity import own_identity
from holdfast.store.base import Head, Snapshot, Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START, labels_in, numbered
from tests.support.logs import assert_whole, folded, whole
from tests.support.opened_run import StoreSession


async def test_a_second_taker_is_told_who_owns_the_run(backend: Backend, store: Store) -> None:
    async with store.own(RUN) as lease:
        holder = await backend.store().holder(RUN)
        assert holder is not None
        assert (holder.pid, holder.start_time, holder.boot_id) == own_identity()
        assert holder.epoch == lease.epoch
        with pytest.raises(RunOwned, match=f"{RUN}.*pid {os.getpid()}.*since {holder.since}"):
            async with backend.store().own(RUN):
                pass
        assert await backend.store().holder(RUN) == holder
    assert await backend.store().holder(RUN) is None


async def test_of_many_takers_one_succeeds(backend: Backend, store: Store) -> None:
    owners = 0

    async def take() -> int:
        nonlocal owners
        async with backend.store().own(RUN) as lease:
            owners += 1
            assert owners == 1
            for _ in range(10):
                await asyncio.sleep(0)
            owners -= 1
            return lease.epoch

    outcomes = await asyncio.gather(*(take() for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(outcome, int) for outcome in outcomes) >= 1
    assert all(isinstance(outcome, int | RunOwned) for outcome in outcomes)


async def test_two_runs_have_two_owners(store: Store) -> None:
    await store.create("other-aaaaaa")
    async with store.own(RUN), store.own("other-aaaaaa"):
        pass


async def test_the_epoch_grows_with_every_owner(backend: Backend, store: Store) -> None:
    epochs = []
    for turn in range(6):
        session = await StoreSession.open(backend.store(), RUN)
        epochs.append(session.run.epoch)
        await (backend.kill(session) if turn % 2 else session.close())
    assert epochs == sorted(set(epochs))


async def test_a_run_is_free_after_an_error_in_its_owner(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_run(store, RUN):
            raise ZeroDivisionError
    async with open_run(store, RUN):
        pass


async def test_a_dead_owners_run_is_free_at_once_and_whole(backend: Backend, store: Store) -> None:
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    await session.run.append(numbered("a", 1))
    await backend.kill(session)
    assert await store.holder(RUN) is None
    async with open_run(backend.store(), RUN) as run:
        await run.begin_session(START, numbered("a", 2))
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("a", 1), ("a", 2)]


async def test_a_usurped_owner_writes_nothing_more(backend: Backend, store: Store) -> None:
    old = await StoreSession.open(store, RUN)
    await old.run.begin_session(START, numbered("old", 1))
    await backend.usurp(RUN)
    async with open_run(backend.store(), RUN) as run:
        await run.begin_session(START, numbered("new", 1))
        for number in (2, 3):
            with pytest.raises(RunFenced):
                await old.run.append(numbered("old", number))
        await run.append(numbered("new", 2))
        assert run.state == folded(await whole(store, RUN))
        await old.close()
        holder = await store.holder(RUN)
        assert holder is not None
        assert holder.epoch == run.epoch
        with pytest.raises(RunOwned):
            await StoreSession.open(store, RUN)
        await run.append(numbered("new", 3))
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("old", 1), ("new", 1), ("new", 2), ("new", 3)]


async def test_every_waiting_appender_of_a_usurped_owner_is_told(backend: Backend, store: Store) -> None:
    old = await StoreSession.open(store, RUN)
    await old.run.begin_session(START)
    await backend.usurp(RUN)
    async with open_run(backend.store(), RUN):
        outcomes = await asyncio.gather(
            *(old.run.append(numbered("old", number)) for number in range(5)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [RunFenced] * 5
        await old.close()
    assert labels_in(await whole(store, RUN)) == []


async def test_a_snapshot_comes_back_as_it_was_saved(backend: Backend, store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        await run.save_snapshot()
        assert await backend.store().snapshot(RUN) == Snapshot(run.head, run.state)
        covered = run.head
        await run.append(numbered("a", 2))
        older = await backend.store().snapshot(RUN)
        assert older is not None
        assert older.head == covered
    newest = await backend.store().snapshot(RUN)
    assert newest is not None
    assert newest == Snapshot(run.head, folded(await whole(store, RUN)))


async def test_a_snapshot_of_the_empty_log_fits_the_empty_log(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.save_snapshot()
        assert await store.snapshot(RUN) == Snapshot(Head(), run.state)
