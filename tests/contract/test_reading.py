"""Reading: by cursor from any line, backwards, and as the log grows. Readers need no ownership."""

import asyncio

import pytest

from holdfast.store.base import Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START, labels_in, numbered
from tests.support.logs import boundaries, closed, collect, collect_back, first_lines, whole
from tests.support.wait import PATIENCE


@pytest.fixture
async def written(store: Store) -> bytes:
    """A log of several sessions, with commits of one and of many lines, some of them long."""
    for session in range(3):
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
            for number in range(6):
                await run.append(*(numbered(f"s{session}", number, 50_000 * (number == 4)) for _ in range(number)))
    return await whole(store, RUN)


async def test_a_cursor_reads_on_from_every_line(store: Store, written: bytes) -> None:
    for position in boundaries(written):
        assert await collect(store.log(RUN).read(position), position) == written[position:]


async def test_reading_back_is_reading_in_reverse(store: Store, written: bytes) -> None:
    assert await collect_back(store.log(RUN).read_backwards()) == written
    for position in boundaries(written):
        assert await collect_back(store.log(RUN).read_backwards(position)) == written[:position]


@pytest.mark.parametrize("beyond", [1, 1000, 1_000_000_000_000])
async def test_there_is_nothing_beyond_the_end(store: Store, written: bytes, beyond: int) -> None:
    position = len(written) + beyond
    assert await collect(store.log(RUN).read(position)) == b""
    assert await collect_back(store.log(RUN).read_backwards(position)) == written


async def test_a_reader_who_stops_in_the_middle_goes_on_from_its_cursor(store: Store, written: bytes) -> None:
    reading = store.log(RUN).read()
    first = await anext(reading)
    await closed(reading)
    assert first.data + await collect(store.log(RUN).read(first.end), first.end) == written


async def test_many_followers_see_every_line_once(backend: Backend, store: Store) -> None:
    """From the beginning or from a cursor, in this process' store or in another's."""
    async with open_run(store, RUN) as run:
        start = await run.begin_session(START)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            followers = [
                group.create_task(first_lines(backend.store().log(RUN), 40, after))
                for after in (0, start.end)
                for _ in range(10)
            ]
            for number in range(20):
                await run.append(numbered("a", number))
                await run.append(numbered("b", number), numbered("c", number))
    lines = (await whole(store, RUN)).splitlines()
    for index, follower in enumerate(followers):
        seen, skipped = follower.result(), 0 if index < 10 else 1
        assert len(seen) >= 40
        assert seen == lines[skipped : skipped + len(seen)]


async def test_a_follower_sees_the_sessions_that_come_after_it(backend: Backend, store: Store) -> None:
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        follower = group.create_task(first_lines(store.log(RUN), 9))
        for session in range(3):
            async with open_run(backend.store(), RUN) as run:
                await run.begin_session(START)
                await run.append(numbered("a", session), numbered("b", session))
    assert len(follower.result()) == 9


async def test_a_follower_can_leave_at_any_time(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        waiting = [asyncio.create_task(first_lines(store.log(RUN), 1000)) for _ in range(3)]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            staying = group.create_task(first_lines(store.log(RUN), 3))
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await run.append(numbered("a", 1), numbered("a", 2))
    assert all(task.cancelled() for task in waiting)
    assert labels_in(b"\n".join(staying.result())) == [("a", 1), ("a", 2)]
