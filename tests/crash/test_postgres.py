"""Owners and servers that are killed, frozen or cut off: no event is lost, none is twice, and no zombie writes."""

import asyncio
import os
import random
import signal
from collections.abc import Iterator

import asyncpg
import pytest

from holdfast.leaf.errors import RunOwned
from holdfast.store.base import Store
from holdfast.store.run import open_run
from tests.support.children import append_for_ever, put_for_ever
from tests.support.events import START, by_producer, labels_in, numbered
from tests.support.logs import assert_whole, folded, whole
from tests.support.postgres import PostgresServer, postgres_server, programs_folder
from tests.support.processes import Child, child
from tests.support.proofs import record
from tests.support.run_files import RUN
from tests.support.stores import database_address, store_at
from tests.support.variants import first
from tests.support.wait import PATIENCE

PRODUCERS = {f"p{index}": 0 for index in range(4)}
CRASHES = 5  # of the server, for each seed
MOST_AT_ONCE = 3  # events of one append: so many may be in the log of which no one was told yet


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that may be killed."""
    if programs_folder() is None:
        pytest.skip("NOT TESTED: the store on Postgres; there is no Postgres for this platform")
    with postgres_server() as server:
        yield server


async def assert_complete(store: Store, heard: list[str], counts: dict[str, int]) -> dict[str, int]:
    """Every acknowledged event is in the log, in order and once; return how many of each producer there are."""
    async with open_run(store, RUN) as run:
        data = await whole(store, RUN)
        assert_whole(data)
        assert run.state == folded(data)
        assert run.state.malformed == []
    found = by_producer(labels_in(data))
    sent = by_producer([(name, int(number)) for name, number in map(str.split, heard)])
    for name, count in counts.items():
        numbers = found.get(name, [])
        assert numbers == list(range(len(numbers))), "in order, none twice, none left out"
        assert set(sent.get(name, [])) <= set(numbers), "none lost that was acknowledged"
        assert len(numbers) <= count + len(sent.get(name, [])) + MOST_AT_ONCE, "none invented"
    return {name: len(found.get(name, [])) for name in counts}


async def test_killed_owners_lose_nothing_and_need_not_be_waited_for(postgres: PostgresServer, home: str) -> None:
    address = database_address(postgres.new_store_url(), home)
    store, dice, counts = store_at(address), random.Random(1), dict(PRODUCERS)
    await store.create(RUN)
    for _ in range(5):
        with child(append_for_ever, address, counts, dice.randrange(2**32)) as writer:
            heard = writer.hear_some(dice.choice((2, 5, 20, 60)))
            writer.kill()
            heard += writer.hear_all()
        counts = await assert_complete(store, heard[1:], counts)


@pytest.mark.parametrize("seed", first(*range(20)))
async def test_a_server_that_is_killed_in_the_middle_of_commits_loses_nothing(
    server: PostgresServer, home: str, seed: int, request: pytest.FixtureRequest
) -> None:
    """Its clients do not know what became of their last statement. The writer goes on, and so does the inbox."""
    address, dice = database_address(server.new_store_url(), home), random.Random(seed)
    store = store_at(address)
    await store.create(RUN)
    with (
        child(append_for_ever, address, PRODUCERS, dice.randrange(2**32)) as writer,
        child(put_for_ever, address, "w", dice.randrange(2**32)) as sender,
    ):
        heard, sent = writer.hear_some(2), sender.hear_some(1)
        for _ in range(CRASHES):
            heard += writer.hear_some(dice.choice((1, 5, 20, 50)))
            server.kill()
            server.start()
            server.wait_until_ready()
            sent += sender.hear_some(1)
        heard += writer.hear_some(5)
        for process in (writer, sender):
            process.kill()
        heard += writer.hear_all()
        sent += sender.hear_all()
    assert heard[0] == "opening"
    found = await assert_complete(store, heard[1:], PRODUCERS)
    messages = [entry.message.id async for entry in store.inbox(RUN).read() if entry.message is not None]
    assert messages[: len(sent)] == list(dict.fromkeys(sent))
    assert len(messages) <= len(sent) + 1
    if "torture" in request.config.option.markexpr:
        record("database", part=seed, rounds=CRASHES, events=sum(found.values()), messages=len(messages), wrong=0)


async def test_followers_go_on_where_they_were_when_the_server_is_back(server: PostgresServer, home: str) -> None:
    """Of the log and of the inbox: what was written while nobody listened is read, and what comes later, too."""
    address = database_address(server.new_store_url(), home)
    store = store_at(address)
    await store.create(RUN)

    async def follow() -> bytes:
        data = b""
        async for batch in store.log(RUN).follow():
            assert batch.start == len(data)
            data += batch.data
            if ("p", 6) in labels_in(data):
                return data
        raise AssertionError("it never ends")

    following = asyncio.ensure_future(follow())
    async with open_run(store, RUN) as run, asyncio.timeout(PATIENCE):
        await run.begin_session(START)
        for number in range(7):
            await run.append(numbered("p", number))
            if number % 2:
                server.kill()
                server.start()
                await asyncio.to_thread(server.wait_until_ready)
        assert await following == await whole(store, RUN)


async def wait_until_fenced(writer: Child) -> list[str]:
    """What a writer reported until it ended by itself."""
    return await asyncio.to_thread(writer.hear_all)


@pytest.mark.parametrize("seed", first(*range(50)))
async def test_an_owner_that_was_frozen_writes_nothing_after_the_take_over(
    postgres: PostgresServer, home: str, seed: int
) -> None:
    url, dice = postgres.new_store_url(), random.Random(seed)
    await store_at(database_address(url, home)).create(RUN)
    store = store_at(database_address(url, home))
    with child(append_for_ever, database_address(url, home, 1.0), PRODUCERS, seed) as zombie:
        heard = zombie.hear_some(dice.choice((2, 10, 40)))
        os.kill(zombie.pid, signal.SIGSTOP)
        with pytest.raises(RunOwned, match=str(zombie.pid)):
            async with store.own(RUN):
                pass
        async with asyncio.timeout(PATIENCE):
            await store.wait_until_released(RUN)
        async with open_run(store, RUN) as run:
            await run.begin_session(START, numbered("new", 0))
            before = await whole(store, RUN)
            os.kill(zombie.pid, signal.SIGCONT)
            heard += await wait_until_fenced(zombie)
            await run.append(numbered("new", 1))
    data = await whole(store, RUN)
    assert_whole(data)
    assert data.startswith(before)
    assert labels_in(data[len(before) :]) == [("new", 1)]
    acknowledged = {(name, int(number)) for name, number in map(str.split, heard[1:])}
    assert acknowledged <= set(labels_in(before))


async def test_a_dead_owner_of_another_machine_is_waited_for_until_its_lease_ends(
    postgres: PostgresServer, home: str
) -> None:
    url = postgres.new_store_url()
    store = store_at(database_address(url, home))
    await store.create(RUN)
    with child(append_for_ever, database_address(url, home, 2.0), PRODUCERS, 1) as writer:
        heard = writer.hear_some(5)
        connection = await asyncpg.connect(url)
        try:
            moved = "replace(convert_from(holder, 'UTF8'), '\"machine\":\"', '\"machine\":\"elsewhere ')"
            await connection.execute(f"UPDATE run SET holder = convert_to({moved}, 'UTF8')")
        finally:
            await connection.close()
        writer.kill()
        heard += writer.hear_all()
    assert await store.holder(RUN) is not None
    with pytest.raises(RunOwned):
        async with store.own(RUN):
            pass
    async with asyncio.timeout(PATIENCE):
        await store.wait_until_released(RUN)
    await assert_complete(store, heard[1:], PRODUCERS)
