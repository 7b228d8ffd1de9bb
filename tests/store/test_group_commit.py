"""Group commit: many producers share a sync, a lone one pays one, and nobody is told before the disk was."""

import asyncio
import os

import pytest

from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.disk import Disk
from holdfast.store.base import Batch
from holdfast.store.files.journal import FileJournal
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.disks import CountingDisk
from tests.support.events import START, by_producer, labels_in, numbered
from tests.support.logs import assert_whole, whole
from tests.support.opened_run import StoreSession
from tests.support.run_files import RUN, content, log_file
from tests.support.wait import ticks


async def produce(run: OwnedRun, name: str, count: int) -> None:
    for number in range(count):
        await run.append(numbered(name, number))


@pytest.mark.parametrize("producers", [2, 16, 64])
async def test_many_producers_share_a_sync(home: str, producers: int) -> None:
    counting = CountingDisk()
    store = FileStore(home, disk=counting.disk)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        before = counting.syncs
        await asyncio.gather(*(produce(run, f"p{index}", 10) for index in range(producers)))
        assert counting.syncs - before <= 11
        assert counting.writes == counting.syncs
    data = await whole(store, RUN)
    assert_whole(data)
    assert by_producer(labels_in(data)) == {f"p{index}": list(range(10)) for index in range(producers)}


async def test_a_lone_producer_pays_one_sync_an_append(home: str) -> None:
    counting = CountingDisk()
    store = FileStore(home, disk=counting.disk)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for number in range(20):
            before = counting.writes, counting.syncs
            await run.append(*(numbered("a", number) for _ in range(1 + number % 4)))
            assert (counting.writes, counting.syncs) == (before[0] + 1, before[1] + 1)


async def test_many_who_come_to_one_that_was_long_alone_share_its_syncs(home: str) -> None:
    counting = CountingDisk()
    store = FileStore(home, disk=counting.disk)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await produce(run, "alone", 20)
        before = counting.syncs
        await asyncio.gather(*(produce(run, f"p{index}", 10) for index in range(16)))
        assert counting.syncs - before <= 11


async def test_whoever_comes_during_a_commit_is_in_the_next(home: str) -> None:
    """Producers that are ready at different moments: none waits for more than one commit besides its own."""
    store = FileStore(home)
    await store.create(RUN)

    async def late(index: int) -> None:
        await ticks(index)
        await produce(run, f"p{index}", 5)

    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await asyncio.gather(*(late(index) for index in range(12)))
    assert by_producer(labels_in(await whole(store, RUN))) == {f"p{index}": list(range(5)) for index in range(12)}


async def test_nobody_is_told_before_the_disk_was(home: str) -> None:
    """At each sync the whole commit is in the file; when it has not returned, no append has."""
    told: list[Batch] = []
    synced: list[tuple[int, int]] = []

    def sync(fd: int) -> None:
        synced.append((os.fstat(fd).st_size, len(told)))
        os.fdatasync(fd)

    store = FileStore(home, disk=Disk(sync=sync))
    await store.create(RUN)

    async def append(number: int) -> None:
        told.append(await run.append(numbered("a", number)))

    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for turn in range(5):
            await asyncio.gather(*(append(4 * turn + index) for index in range(4)))
            assert synced[-1] == (told[-1].end, 4 * turn)
            assert len(synced) == 2 + turn


async def test_only_the_first_line_of_a_commit_has_no_mark(home: str) -> None:
    """By it the last commit can be told, when the end of the log has to be repaired."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await asyncio.gather(run.append(numbered("a", 1), numbered("a", 2)), run.append(), run.append(numbered("b", 1)))
        await run.append(numbered("a", 3))
    marks = [line.endswith(b"} ") for line in content(log_file(home)).split(b"\n")[:-1]]
    assert marks == [False, False, True, True, False]


async def test_an_empty_or_refused_append_does_not_mark_the_line_after_it(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await asyncio.gather(
            run.append(), run.append(numbered("a", 1), expect=1), run.append(numbered("b", 1)), return_exceptions=True
        )
    assert content(log_file(home)).split(b"\n")[1].endswith(b"}")


async def test_an_append_that_was_interrupted_leaves_no_hole(home: str) -> None:
    """Ctrl-C between the stamping of lines and their keeping: what comes after them is not written either."""
    store = FileStore(home)
    await store.create(RUN)
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    before = content(log_file(home))
    journal = session.run._journal
    assert isinstance(journal, FileJournal)
    journal._sequencer.encode_lines([numbered("lost", 1)])
    journal._sequencer._pending.clear()
    outcomes = await asyncio.gather(*(session.run.append(numbered("a", n)) for n in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StorageFailed] * 3
    assert content(log_file(home)) == before
    await session.close()


async def test_who_is_cancelled_while_others_write_keeps_nobody_waiting(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        tasks = [asyncio.create_task(run.append(numbered("a", number))) for number in range(4)]
        await ticks(1)
        for task in tasks[:3]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[3], Batch)
        assert run.state.lines == 5
    assert labels_in(await whole(store, RUN)) == [("a", number) for number in range(4)]
