"""Reading files: lines of any length, logs of any size, little memory; and no descriptor kept by a watcher at rest."""

import asyncio
import gc
import os
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from holdfast.store.base import Batch
from holdfast.store.files.reading import CHUNK_BYTES
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.store.run import open_run
from tests.support.events import START, labels_in, numbered
from tests.support.logs import assert_whole, boundaries, closed, collect, collect_back, first_lines, whole
from tests.support.run_files import RUN, content, log_file, put_content
from tests.support.wait import PATIENCE, open_descriptors, until

MB = 1024 * 1024


def inotify_instances() -> int:
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the one that lists them
    return links.count("anon_inode:inotify")


async def test_a_line_of_20_mb_is_read_forwards_backwards_and_followed(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        follower = group.create_task(first_lines(store.log(RUN), 4))
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
            await run.append(numbered("a", 1, 20 * MB))
            await run.append(numbered("a", 2), numbered("a", 3, 20 * MB))
    data = await whole(store, RUN)
    assert len(data) > 40 * MB
    assert_whole(data)
    assert labels_in(data) == [("a", 1), ("a", 2), ("a", 3)]
    assert await collect_back(store.log(RUN).read_backwards()) == data
    assert b"\n".join(follower.result()) + b"\n" == data
    async with open_run(store, RUN) as run:
        assert run.state.events == 4


async def test_a_reader_that_stops_early_keeps_no_file_open(home: str) -> None:
    """Without a turn of the event loop in between: one process reads thousands of logs, and may open few files."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.append(*(numbered("a", n, CHUNK_BYTES) for n in range(4)))
    before = open_descriptors()
    for batches in (store.log(RUN).read(), store.log(RUN).read_backwards()):
        async for _ in batches:
            break
    del batches
    assert open_descriptors() <= before


async def test_a_torn_line_of_20_mb_is_set_aside(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        start = await run.begin_session(START)
        await run.append(numbered("a", 1, 20 * MB))
    data = content(log_file(home))
    put_content(log_file(home), data[:-40])
    async with open_run(store, RUN) as run:
        assert run.head.position == start.end
        await run.begin_session(START, numbered("a", 2))
    assert_whole(await whole(store, RUN))
    assert os.path.getsize(f"{log_file(home)}.torn-{start.end}") == len(data) - 40 - start.end


@pytest.mark.parametrize(
    "length", [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 1]
)
async def test_lines_that_end_where_a_chunk_does(home: str, length: int) -> None:
    """Neither reading nor the search for the last newline may be off by one there."""
    store = FileStore(home)
    await store.create(RUN)
    for lines in ([length], [length, 1], [1, length], [length, length], [10, length, 10]):
        data = b"".join(b"x" * (size - 1) + b"\n" for size in lines)
        put_content(log_file(home), data + b"torn")
        log = store.log(RUN)
        assert await log.torn_tail() == b"torn"
        for position in boundaries(data):
            assert await collect(log.read(position), position) == data[position:]
            assert await collect_back(log.read_backwards(position)) == data[:position]


@pytest.fixture
async def large(home: str) -> AsyncIterator[FileStore]:
    """A log of 32 MB in lines of all lengths up to a few KB."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        sample = (await run.append(*(numbered("a", number, 17 * number) for number in range(200)))).data
    with open(log_file(home), "ab") as file:
        while file.tell() < 32 * MB:
            file.write(sample)
    yield store
    assert os.path.getsize(log_file(home)) > 32 * MB


async def drained(batches: AsyncIterator[Batch]) -> int:
    total = 0
    async for batch in batches:
        total += len(batch.data)
    return total


@pytest.mark.parametrize("how", ["read", "read_back", "fold"])
async def test_memory_is_bounded_whatever_the_size_of_the_log(large: FileStore, how: str) -> None:
    log = large.log(RUN)
    tracemalloc.start()
    try:
        if how == "read":
            assert await drained(log.read()) > 32 * MB
        elif how == "read_back":
            assert await drained(log.read_backwards()) > 32 * MB
        else:
            await fold_log(log, only=frozenset())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MB


@pytest.mark.usefixtures("alone_with_watches")
async def test_a_watcher_holds_its_descriptor_only_while_somebody_follows(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    await store.create("other-aaaaaa")
    gc.collect()  # followers that other tests dropped
    before = open_descriptors()
    assert inotify_instances() == 0
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        logs = [store.log(RUN), store.log(RUN), store.log("other-aaaaaa")]
        waiting = [asyncio.create_task(first_lines(log, 3)) for log in logs]
        inbox = store.inbox(RUN).follow()
        waiting_for_message = asyncio.ensure_future(anext(inbox))
        await until(lambda: inotify_instances() == 1)
        await run.append(numbered("a", 1), numbered("a", 2))
        await asyncio.gather(*waiting[:2])
        assert inotify_instances() == 1
        for task in (waiting[2], waiting_for_message):
            task.cancel()
        await asyncio.gather(waiting[2], waiting_for_message, return_exceptions=True)
        await closed(inbox)
        await until(lambda: inotify_instances() == 0)
    await until(lambda: open_descriptors() <= before)
    assert len(await first_lines(store.log(RUN), 3)) == 3


@pytest.mark.usefixtures("alone_with_watches")
async def test_a_follower_that_is_dropped_without_a_word_holds_nothing(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    before = open_descriptors()
    for _ in range(10):
        async for _ in store.log(RUN).follow():
            break
    await until(lambda: open_descriptors() <= before)


@pytest.mark.usefixtures("alone_with_watches")
async def test_a_file_that_is_gone_can_be_left_in_peace(home: str) -> None:
    """The log is deleted under its followers: they end with an error, and the watcher works for the others."""
    store = FileStore(home)
    await store.create(RUN)
    await store.create("other-aaaaaa")
    async with asyncio.timeout(PATIENCE):
        lost = asyncio.create_task(first_lines(store.log(RUN), 1))
        other = asyncio.create_task(first_lines(store.log("other-aaaaaa"), 1))
        await until(lambda: inotify_instances() == 1)
        os.unlink(log_file(home))
        with pytest.raises(OSError, match="No such file"):
            await lost
        async with open_run(store, "other-aaaaaa") as run:
            await run.begin_session(START)
        assert len(await other) == 1
    await until(lambda: inotify_instances() == 0)
