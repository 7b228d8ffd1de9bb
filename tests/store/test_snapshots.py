"""Snapshots: a cache that is believed only when it fits. Whatever else lies there, the state is that of the log."""

import os
from collections.abc import Sequence

import msgspec
import pytest

from holdfast.core.fold.fold import FOLD_VERSION, Fold
from holdfast.leaf.clock import now
from holdfast.leaf.errors import StorageFailed
from holdfast.store import snapshot
from holdfast.store.base import SNAPSHOT_EVERY_BYTES, Head, Snapshot, WriterContext
from holdfast.store.files.store import FileStore
from holdfast.store.fold import LiveState, fold_log
from holdfast.store.run import OwnedRun, open_run
from tests.support.disks import FailingDisk
from tests.support.events import START, numbered
from tests.support.logs import folded, whole
from tests.support.opened_run import StoreSession, kill
from tests.support.run_files import RUN, content, log_file, put_content, remove, snapshot_file


async def made(home: str, events: int = 3, run_id: str = RUN) -> FileStore:
    store = FileStore(home, clock=lambda: "2026-01-01T00:00:00.000Z")
    await store.create(run_id)
    async with open_run(store, run_id, sid="s1") as run:
        await run.begin_session(START)
        for number in range(events):
            await run.append(numbered("a", number))
    return store


async def assert_state_is_right(store: FileStore, run_id: str = RUN) -> None:
    expected = folded(await whole(store, run_id))
    found = await store.snapshot(run_id)
    fold, head, _ = await fold_log(store.log(run_id), found)
    assert fold.state == expected
    assert head == (await fold_log(store.log(run_id))).head


async def test_opening_with_a_snapshot_reads_only_the_tail(home: str) -> None:
    store = await made(home, events=50)
    snapshot_ = await store.snapshot(RUN)
    assert snapshot_ is not None
    assert (await fold_log(store.log(RUN), snapshot_)).lines_read == 0
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START, numbered("b", 1), numbered("b", 2))
    await kill(session)
    assert (await fold_log(store.log(RUN), await store.snapshot(RUN))).lines_read == 3
    remove(snapshot_file(home))
    assert (await fold_log(store.log(RUN), await store.snapshot(RUN))).lines_read == 54
    await assert_state_is_right(store)


async def test_a_long_log_is_saved_as_it_grows(home: str) -> None:
    """So a killed owner leaves a tail of a bounded length."""
    store = FileStore(home)
    await store.create(RUN)
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    for number in range(25):
        await session.run.append(numbered("a", number, SNAPSHOT_EVERY_BYTES // 10))
    end = session.run.head.position
    await kill(session)
    found = await store.snapshot(RUN)
    assert found is not None
    assert end - found.head.position < SNAPSHOT_EVERY_BYTES
    await assert_state_is_right(store)


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x20, 0x80])
async def test_a_snapshot_with_any_bit_flipped_is_not_believed(home: str, bit: int) -> None:
    store = await made(home)
    path = snapshot_file(home)
    good = content(path)
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= bit
        put_content(path, bytes(damaged))
        assert await store.snapshot(RUN) is None, f"believed, with byte {place} of {good!r} flipped"
    put_content(path, good)
    assert await store.snapshot(RUN) is not None


async def test_a_snapshot_cut_at_any_byte_is_not_believed(home: str) -> None:
    store = await made(home)
    path = snapshot_file(home)
    good = content(path)
    for length in range(len(good)):
        put_content(path, good[:length])
        assert await store.snapshot(RUN) is None
    for tail in (b"\0", b"}", b"{}", good):
        put_content(path, good + tail)
        assert await store.snapshot(RUN) is None


async def test_an_unbelievable_snapshot_is_made_anew(home: str) -> None:
    store = await made(home)
    for garbage in (b"", b"garbage", b"{}", b"[" * 5000, b"\xff", b"null"):
        put_content(snapshot_file(home), garbage)
        async with open_run(store, RUN) as run:
            assert run.state == folded(await whole(store, RUN))
            await run.begin_session(START)
        found = await store.snapshot(RUN)
        assert found == Snapshot(run.head, run.state)


async def test_a_snapshot_of_another_log_is_not_believed(home: str) -> None:
    """Even of one that is as long, and differs in one letter."""
    store = await made(home)
    await made(home, run_id="other-aaaaaa", events=5)
    put_content(snapshot_file(home), content(snapshot_file(home, "other-aaaaaa")))
    assert await store.snapshot(RUN) is None
    await assert_state_is_right(store)
    data = content(log_file(home))
    async with open_run(store, RUN) as run:
        await run.save_snapshot()
    assert await store.snapshot(RUN) is not None
    await store.create("third-aaaaaa")
    async with open_run(store, "third-aaaaaa", sid="s1") as run:
        await run.begin_session(START)
        for number in range(3):
            await run.append(numbered("b", number))
    assert len(content(log_file(home, "third-aaaaaa"))) == len(data)
    put_content(snapshot_file(home), content(snapshot_file(home, "third-aaaaaa")))
    assert await store.snapshot(RUN) is None
    await assert_state_is_right(store)


async def test_a_snapshot_of_a_log_that_was_cut_since_is_not_believed(home: str) -> None:
    store = await made(home)
    data = content(log_file(home))
    for length in range(len(data)):
        put_content(log_file(home), data[:length])
        assert await store.snapshot(RUN) is None
    lines = data.splitlines(keepends=True)
    put_content(log_file(home), b"".join(lines[:2]))
    async with open_run(store, RUN) as run:
        assert run.state == folded(b"".join(lines[:2]))


async def test_a_snapshot_of_a_log_that_went_another_way_is_not_believed(home: str) -> None:
    """Cut, and written again past the place that the snapshot covers."""
    store = await made(home)
    old = content(snapshot_file(home))
    data = content(log_file(home))
    put_content(log_file(home), b"".join(data.splitlines(keepends=True)[:2]))
    remove(snapshot_file(home))
    async with open_run(store, RUN) as run:
        await run.begin_session(START, *(numbered("other", number) for number in range(9)))
    put_content(snapshot_file(home), old)
    assert len(content(log_file(home))) > len(data)
    assert await store.snapshot(RUN) is None
    await assert_state_is_right(store)


async def test_a_snapshot_inside_a_line_is_not_believed(home: str) -> None:
    store = await made(home)
    good = await store.snapshot(RUN)
    assert good is not None
    for position in (1, good.head.position - 1, good.head.position + 1, 10**15):
        put_content(snapshot_file(home), snapshot.to_bytes(Snapshot(Head(position, good.head.chain), good.state)))
        assert await store.snapshot(RUN) is None
    put_content(snapshot_file(home), snapshot.to_bytes(Snapshot(Head(0, good.head.chain), good.state)))
    assert await store.snapshot(RUN) is None


async def test_a_snapshot_of_another_version_of_the_fold_is_not_believed(home: str) -> None:
    store = await made(home)
    sheet = msgspec.json.decode(content(snapshot_file(home)))
    assert sheet["fold"] == FOLD_VERSION
    for version in (FOLD_VERSION - 1, FOLD_VERSION + 1):
        put_content(snapshot_file(home), msgspec.json.encode(sheet | {"fold": version}))
        assert await store.snapshot(RUN) is None


async def test_an_old_snapshot_is_as_good_as_a_new_one(home: str) -> None:
    store = await made(home)
    snapshots = [content(snapshot_file(home))]
    for number in range(5):
        async with open_run(store, RUN) as run:
            await run.begin_session(START, numbered("b", number))
        snapshots.append(content(snapshot_file(home)))
    for older in snapshots:
        put_content(snapshot_file(home), older)
        assert await store.snapshot(RUN) is not None
        await assert_state_is_right(store)


async def test_a_fold_that_was_interrupted_leaves_no_snapshot_of_half_a_state(home: str) -> None:
    """Ctrl-C in the middle of it: the events are in the log, the state in hand is not theirs."""

    class Interrupted(Fold):
        def feed_lines(self, lines: Sequence[bytes]) -> None:
            super().feed_lines(lines[:1])
            if len(lines) > 1:
                raise KeyboardInterrupt

    store = FileStore(home)
    await store.create(RUN)
    async with store.own(RUN) as lease:
        standing = LiveState(Interrupted(), 0)

        async def milestone() -> None:
            await run.save_snapshot()

        context = WriterContext("s1", None, Head(), now, standing.add_lines, milestone)
        run = OwnedRun(lease, await lease.open_journal(context), store.log(RUN), store.inbox(RUN), standing, [])
        await run.begin_session(START)
        await run.append(numbered("a", 1), numbered("a", 2))
        with pytest.raises(KeyboardInterrupt):
            run.state  # noqa: B018
        with pytest.raises(StorageFailed):
            run.state  # noqa: B018
        await run.append(numbered("a", 3))
        await run.close()
    found = await store.snapshot(RUN)
    assert found is None or found.state == folded((await whole(store, RUN))[: found.head.position])
    async with open_run(store, RUN) as run:
        assert run.state == folded(await whole(store, RUN))


async def test_state_that_cannot_be_written_costs_only_the_snapshot(home: str) -> None:
    """Numbers that another tool's log may have and JSON of ours may not."""
    store = FileStore(home)
    await store.create(RUN)
    number = b"1" * 4000
    put_content(
        log_file(home), b'{"sid":"x","seq":0,"type":"error.encountered","data":{"error":"e","n":' + number + b"}}\n"
    )
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert run.state.events == 2
    await assert_state_is_right(store)


@pytest.mark.parametrize(("kind", "saving"), [("write", 1), ("sync", 2)])  # the opening syncs once, the start again
async def test_a_save_that_fails_leaves_the_old_snapshot(home: str, kind: str, saving: int) -> None:
    good = await (await made(home)).snapshot(RUN)
    store = FileStore(home, disk=FailingDisk(kind, saving, leaves=100).disk)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.save_snapshot()
        assert await store.snapshot(RUN) == good
    assert await store.snapshot(RUN) == good
    assert not [name for name in os.listdir(os.path.dirname(log_file(home))) if name.endswith(".tmp")]
    await assert_state_is_right(store)
