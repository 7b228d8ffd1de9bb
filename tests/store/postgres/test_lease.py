"""The lease: lost aloud, released alone, and nothing that a late holder does lands."""

import asyncio
from typing import Any

import asyncpg
import pytest

from holdfast.leaf.errors import BadInput, RunFenced, RunOwned
from holdfast.leaf.process.proc import is_dying
from holdfast.store.base import Head, Snapshot
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.lease import TTL_VARIABLE, HeldLease, _Acquired, now_s
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.run import open_run
from tests.support.children import own_until_killed
from tests.support.events import START, numbered
from tests.support.opened_run import StoreSession
from tests.support.postgres import PostgresServer
from tests.support.processes import child
from tests.support.run_files import RUN
from tests.support.stores import database_address
from tests.support.wait import PATIENCE


@pytest.fixture
async def store(postgres: PostgresServer, home: str) -> PostgresStore:
    store = PostgresStore(postgres.new_store_url(), home, ttl_s=2.0)
    await store.create(RUN)
    return store


async def expire(store: PostgresStore) -> None:
    """As if the time of the lease had passed: a renewal would find it, so a new owner must come at once."""
    connection = await asyncpg.connect(store._url)
    try:
        await connection.execute("UPDATE run SET expires = now()")
    finally:
        await connection.close()


async def take_over(store: PostgresStore, url_store: PostgresStore) -> StoreSession:
    while True:
        await expire(store)
        try:
            return await StoreSession.open(url_store, RUN)
        except RunOwned:  # it was renewed in between
            continue


async def test_lease_is_renewed_for_as_long_as_its_holder_lives(store: PostgresStore) -> None:
    async with store.own(RUN) as lease:
        ends = set[float]()
        async with asyncio.timeout(PATIENCE):
            while len(ends) < 3:
                claim = await store._claim(RUN)
                assert claim is not None
                ends.add(claim.epoch if claim.holder is None else round(claim.remaining_s, 3))
                assert not lease.is_lost
                await asyncio.sleep(0.01)
    assert await store.holder(RUN) is None


async def test_a_holder_that_dies_while_its_claim_is_looked_at_is_not_told_of(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows any more that it was dying."""
    with child(own_until_killed, database_address(store._url, store.home)) as owner:
        owner.hear()

        def ends_before_that(pid: int) -> bool:
            owner.kill()
            return is_dying(pid)

        monkeypatch.setattr("holdfast.store.postgres.lease.is_dying", ends_before_that)
        async with store.own(RUN) as lease:
            assert lease.epoch == 2


async def test_old_holder_is_told_and_nothing_that_it_does_lands(store: PostgresStore) -> None:
    old = await StoreSession.open(store, RUN)
    await old.run.begin_session(START, numbered("old", 0))
    lease = old.run._lease
    told = asyncio.ensure_future(old.run.wait_until_lost())
    new = await take_over(store, PostgresStore(store._url, store.home, ttl_s=300))
    await new.run.begin_session(START, numbered("new", 0))
    await new.run.save_snapshot()
    saved = await store.snapshot(RUN)
    async with asyncio.timeout(PATIENCE):
        assert "owner" in await told
    assert old.run.is_lost
    assert old.run.may_have_another_owner
    await lease.save_snapshot(Snapshot(Head(), old.run.state))
    with pytest.raises(RunFenced):
        await old.run.append(numbered("old", 1))
    await old.close()
    assert await store.snapshot(RUN) == saved
    holder = await store.holder(RUN)
    assert holder is not None
    assert holder.epoch == new.run.epoch
    assert not new.run.is_lost
    await new.close()


async def test_released_run_is_free_before_its_time(store: PostgresStore) -> None:
    patient = PostgresStore(store._url, store.home, ttl_s=3600)
    async with open_run(patient, RUN):
        waiting = asyncio.ensure_future(store.wait_until_released(RUN))
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await waiting
        async with store.own(RUN):
            pass


async def test_owner_that_is_cancelled_while_it_waits_leaves_no_lease(store: PostgresStore) -> None:
    for ticks in (0, 1, 2, 5, 20):
        owning = asyncio.ensure_future(store.own(RUN).__aenter__())
        for _ in range(ticks):
            await asyncio.sleep(0)
        owning.cancel()
        await asyncio.gather(owning, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await store.wait_until_released(RUN)


@pytest.mark.parametrize("text", ["soon", "0", "-3", "1e9", "nan"])
def test_time_of_the_lease_must_be_one(store: PostgresStore, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(TTL_VARIABLE, text)
    with pytest.raises(BadInput, match=TTL_VARIABLE):
        PostgresStore(store._url, store.home)


class OddClient(Client):
    async def attempts(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("the server answered in riddles")


async def test_a_lease_that_is_not_renewed_by_a_bug_is_lost_at_once() -> None:
    lease = HeldLease(OddClient("postgresql://nowhere"), _Acquired(1, 1, 0, now_s()), ttl_s=10.0)
    async with asyncio.timeout(PATIENCE):
        assert "riddles" in await lease.wait_until_lost()
    assert lease.is_lost
