"""A write cut off at any byte: what was acknowledged is there, the rest is whole or absent, nothing is glued."""

import asyncio
import os
from itertools import pairwise

import pytest

from holdfast.core.events.log import LogRepaired
from holdfast.core.events.session import SessionStart
from holdfast.core.log import chain
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Batch
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from holdfast.store.sequencer import CONTINUATION_MARK
from tests.support.disks import FailingDisk
from tests.support.events import START, events_in, labels_in, numbered
from tests.support.logs import assert_whole, boundaries, closed, folded, whole
from tests.support.opened_run import StoreSession, kill
from tests.support.run_files import RUN, content, log_file, put_content, remove, snapshot_file, torn_pieces

RESUME = SessionStart(command="resume")
CANNOT_REPAIR = "cannot repair the torn end of .*: No space left on device; free disk space, then resume the run"


async def written(home: str, *last: int) -> tuple[bytes, list[Batch]]:
    """A log whose last commit is of calls with so many events each; its bytes, and those calls."""
    store = FileStore(home)
    await store.create(RUN)
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    await session.run.append(numbered("before", 1))
    await session.run.append(numbered("before", 2), numbered("before", 3))
    calls = await asyncio.gather(
        *(
            session.run.append(*(numbered(f"last{call}", number) for number in range(events)))
            for call, events in enumerate(last)
        )
    )
    await kill(session)
    lines = b"".join(call.data for call in calls).splitlines()
    assert [line.endswith(CONTINUATION_MARK) for line in lines] == [False] + [True] * (len(lines) - 1), "one commit"
    return content(log_file(home)), calls


def repairs_told(data: bytes) -> list[str]:
    return [event.kept_as for event in events_in(data) if isinstance(event, LogRepaired)]


def reset(home: str, data: bytes) -> None:
    path = log_file(home)
    put_content(path, data)
    folder = os.path.dirname(path)
    remove(snapshot_file(home), *(os.path.join(folder, name) for name in torn_pieces(path)))


def expected_after(data: bytes, calls: list[Batch], cut: int) -> bytes:
    """The whole calls before the cut, and one more when only the end of its one line was lost."""
    kept = data[: calls[0].start]
    for call in calls:
        if call.end <= cut:
            kept = data[: call.end]
        elif call.data.count(b"\n") == 1 and data[cut : call.end] in (b"\n", b" \n"):
            kept = data[:cut] + b"\n"
    return kept


def set_aside(data: bytes, expected: bytes, cut: int) -> dict[str, bytes]:
    return {} if expected[:cut] == data[:cut] else {f"events.jsonl.torn-{len(expected)}": data[len(expected) : cut]}


@pytest.mark.parametrize(
    "last", [pytest.param(1, id="one-event"), pytest.param(3, id="three-events", marks=pytest.mark.torture)]
)
async def test_torn_at_every_byte_of_the_last_commit(home: str, last: int) -> None:
    data, calls = await written(home, last)
    store, path = FileStore(home), log_file(home)
    for cut in range(calls[0].start, len(data) + 1):
        reset(home, data[:cut])
        expected = expected_after(data, calls, cut)
        aside = set_aside(data, expected, cut)
        async with open_run(store, RUN) as run:
            assert content(path) == expected
            assert run.state == folded(expected)
            await run.begin_session(RESUME, numbered("after", 1))
        async with open_run(store, RUN) as run:
            await run.begin_session(RESUME, numbered("after", 2))
            assert run.state.repairs == list(aside)
            assert run.state.malformed == []
        after = await whole(store, RUN)
        assert after.startswith(expected)
        assert_whole(after)
        assert labels_in(after) == [*labels_in(expected), ("after", 1), ("after", 2)]
        assert torn_pieces(path) == aside
        assert repairs_told(after) == list(aside)


async def test_torn_at_every_byte_of_a_commit_of_many_calls(home: str) -> None:
    """Those that came before are whole, and stay; of one that is torn nothing stays, and no reader ever saw any."""
    data, calls = await written(home, 1, 2, 1, 2)
    store, path = FileStore(home), log_file(home)
    for cut in range(calls[0].start, len(data) + 1):
        reset(home, data[:cut])
        expected = expected_after(data, calls, cut)
        seen = await whole(store, RUN)
        async with store.own(RUN) as lease:
            await lease.repair()
        assert content(path) == expected
        assert torn_pieces(path) == set_aside(data, expected, cut)
        assert seen == max((data[: call.end] for call in calls if call.end <= cut), default=data[: calls[0].start])


async def test_a_log_without_the_mark_of_calls_keeps_what_is_whole(home: str) -> None:
    """As older logs are: of a torn commit, the lines before the tear."""
    data, (call,) = await written(home, 3)
    link, old = chain.carried_link(data[: call.start].splitlines()[-1]), []
    for line in call.data.splitlines(keepends=True):
        bare, end = chain.unseal(line)[0].replace(b"\t}", b"}"), line[line.rindex(b"}") + 1 :]
        assert link is not None
        sealed, link = chain.seal(link, bare, end)
        old.append(sealed)
    before = data[: call.start]
    for short, kept in ((0, 3), (2, 3), (3, 2), (len(old[2]), 2), (len(old[2]) + 3, 1)):
        reset(home, before + b"".join(old)[: len(b"".join(old)) - short])
        async with open_run(FileStore(home), RUN) as run:
            await run.begin_session(RESUME)
        assert labels_in(content(log_file(home)))[3:] == [("last0", number) for number in range(kept)]


@pytest.mark.parametrize("last", [1, 3], ids=["one-event", "three-events"])
async def test_killed_between_the_copy_and_the_cut(home: str, last: int) -> None:
    """The log is as it was; the next opening repairs it, and every kept piece is told of once."""
    data, calls = await written(home, last)
    path = log_file(home)
    for cut in range(calls[0].start + 1, len(data) - 2, 7):
        reset(home, data[:cut])
        expected = expected_after(data, calls, cut)
        if expected == data[:cut]:
            continue
        for _ in range(2):
            with pytest.raises(StorageFailed, match=CANNOT_REPAIR):
                await StoreSession.open(FileStore(home, disk=FailingDisk("truncate", 0).disk), RUN)
            assert content(path) == data[:cut]
        store = FileStore(home)
        async with open_run(store, RUN) as run:
            await run.begin_session(RESUME)
        async with open_run(store, RUN) as run:
            await run.begin_session(RESUME)
        after = await whole(store, RUN)
        assert after.startswith(expected)
        assert_whole(after)
        assert set(torn_pieces(path).values()) == {data[len(expected) : cut]}
        assert sorted(repairs_told(after)) == list(torn_pieces(path))


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_repair_that_fails_changes_nothing(home: str, kind: str) -> None:
    data, _ = await written(home, 1)
    torn = data[:-20]
    path = log_file(home)
    put_content(path, torn)
    with pytest.raises(StorageFailed, match=CANNOT_REPAIR):
        await StoreSession.open(FileStore(home, disk=FailingDisk(kind, 0).disk), RUN)
    assert content(path) == torn
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(RESUME)
        assert len(run.state.repairs) == 1


async def test_a_repair_is_told_even_if_the_repairer_died_before_it_could(home: str) -> None:
    data, _ = await written(home, 1)
    put_content(log_file(home), data[:-20])
    store = FileStore(home)
    await kill(await StoreSession.open(store, RUN))
    async with open_run(store, RUN) as run:
        await run.begin_session(RESUME)
        assert run.state.repairs == list(torn_pieces(log_file(home)))
    assert len(repairs_told(await whole(store, RUN))) == 1


async def test_torn_again_and_again_every_piece_is_kept(home: str) -> None:
    store, path = FileStore(home), log_file(home)
    data, _ = await written(home, 1)
    pieces = []
    for turn in range(5):
        put_content(path, content(path) + b'{"torn":%d' % turn)
        pieces.append(b'{"torn":%d' % turn)
        session = await StoreSession.open(store, RUN)
        if turn % 2:
            await session.run.begin_session(RESUME, numbered("after", turn))
        await kill(session)
    async with open_run(store, RUN) as run:
        await run.begin_session(RESUME)
        assert sorted(run.state.repairs) == list(torn_pieces(path))
    assert sorted(torn_pieces(path).values()) == pieces
    after = await whole(store, RUN)
    assert after.startswith(data)
    assert_whole(after)
    assert len(repairs_told(after)) == 5


async def test_a_stray_file_that_looks_like_a_kept_piece_does_no_harm(home: str) -> None:
    await written(home, 1)
    for stray in ("torn-backup", "torn-12.gz", "torn-"):
        put_content(f"{log_file(home)}.{stray}", b"mine")
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(RESUME)
        assert run.state.repairs == []


async def test_a_fragment_larger_than_any_buffer_is_kept(home: str) -> None:
    data, _ = await written(home, 1)
    fragment = b'{"v":1,"data":"' + b"x" * 3_000_000
    put_content(log_file(home), data + fragment)
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(RESUME)
    assert list(torn_pieces(log_file(home)).values()) == [fragment]


async def test_a_last_line_of_another_tool_without_its_newline_is_an_event(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    put_content(log_file(home), b'{"sid":"x","seq":0,"type":"session.start"}\n{"sid":"x","seq":1,"type":"task.x"}')
    async with open_run(store, RUN) as run:
        await run.begin_session(RESUME)
        assert run.state.events == 3
        assert run.state.repairs == []
        assert run.state.malformed == []


async def test_a_reader_sees_no_torn_line(home: str) -> None:
    data, (call,) = await written(home, 1)
    put_content(log_file(home), data[:-5])
    store = FileStore(home)
    assert await whole(store, RUN) == data[: call.start]
    assert await store.log(RUN).torn_tail() == data[call.start : -5]


async def test_a_follower_sees_a_call_when_all_of_it_is_there(home: str) -> None:
    data, (call,) = await written(home, 3)
    ends = [end for end in boundaries(data) if end > call.start]
    put_content(log_file(home), data[: ends[0]])
    following = FileStore(home).log(RUN).follow()
    assert (await anext(following)).data == data[: call.start]
    with open(log_file(home), "ab", buffering=0) as file:
        file.writelines(data[start:end] for start, end in pairwise(ends))
    assert await anext(following) == call
    await closed(following)
