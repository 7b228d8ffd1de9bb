"""The inbox as a file that strangers can write to: the owner passes over what is no message, and misses none."""

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.core.events.inbox import InboxRejected
from holdfast.leaf.errors import NoSuchRun
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.events import START, events_in
from tests.support.logs import heads, whole
from tests.support.run_files import RUN, content, inbox_file, torn_pieces
from tests.support.wait import PATIENCE, ticks


@pytest.fixture
async def store(home: str) -> FileStore:
    store = FileStore(home)
    await store.create(RUN)
    return store


def scribble(home: str, data: bytes) -> None:
    with open(inbox_file(home), "ab") as file:
        file.write(data)


@contextmanager
def locked(home: str) -> Iterator[None]:
    """Another writer is at it."""
    fd = os.open(inbox_file(home), os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


async def put(store: FileStore, *names: str) -> None:
    for name in names:
        await store.inbox(RUN).put(Message(id=name, kind="say"))


async def taken(run: OwnedRun) -> list[str]:
    return [message.id for message in await run.consume_inbox()]


@pytest.mark.parametrize(
    "line",
    [b"hello\n", b"\0" * 5000 + b"\n", b"{}\n", b'{"sid":"x","seq":0,"type":"note"}\n', b"\xff\n", b"\n\n", b"[1]\n"],
    ids=["text", "zeros", "object", "event", "bytes", "blank", "list"],
)
@pytest.mark.parametrize("read_before_the_next", [True, False])
async def test_a_line_that_is_no_message_hides_none(
    home: str, store: FileStore, line: bytes, read_before_the_next: bool
) -> None:
    """Somebody writes into the inbox by hand; the owner has read past it when the next message comes, or not."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await put(store, "m1")
        scribble(home, line)
        expected = ["m1", "m2", "m3"]
        got = await taken(run) if read_before_the_next else []
        await put(store, "m2", "m3")
        got += await taken(run)
    assert got == expected
    assert line in content(inbox_file(home))
    assert torn_pieces(inbox_file(home)) == {}


async def test_what_is_no_message_is_told_once(home: str, store: FileStore) -> None:
    scribble(home, b"hello\nworld\n")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert await taken(run) == []
        assert await taken(run) == []
    reasons = [event.reason for event in events_in(await whole(store, RUN)) if isinstance(event, InboxRejected)]
    assert len(reasons) == 2
    assert all(reason.startswith("not JSON") for reason in reasons)


async def test_a_torn_end_is_set_aside_by_the_next_writer_and_never_read(home: str, store: FileStore) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await put(store, "m1")
        whole_lines = content(inbox_file(home))
        for length in range(1, 40):
            scribble(home, whole_lines[:length])
            assert await taken(run) == (["m1"] if length == 1 else [])
        torn = content(inbox_file(home)).removeprefix(whole_lines)
        await put(store, "m2")
        assert list(torn_pieces(inbox_file(home)).values()) == [torn]
        assert await taken(run) == ["m2"]


async def test_torn_at_every_byte_the_message_is_whole_or_absent(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    path = inbox_file(home)
    await put(store, "m1")
    first = content(path)
    await put(store, "m2")
    data = content(path)
    for cut in range(len(first), len(data) + 1):
        os.truncate(path, 0)
        scribble(home, data[:cut])
        await put(store, "m3")
        names = [one.message.id async for one in store.inbox(RUN).read() if one.message]
        assert names == (["m1", "m2", "m3"] if cut >= len(data) - 1 else ["m1", "m3"])
        assert [one.reason async for one in store.inbox(RUN).read() if one.message is None] == []


async def test_messages_put_at_once_have_their_own_numbers(home: str, store: FileStore) -> None:
    inbox = store.inbox(RUN)
    with locked(home):
        tasks = [asyncio.create_task(inbox.put(Message(id=f"m{number}", kind="say"))) for number in range(10)]
        await ticks(3)
        assert content(inbox_file(home)) == b""
    await asyncio.gather(*tasks)
    assert [line.seq for line in heads(content(inbox_file(home)))] == list(range(10))


async def test_a_cancelled_writer_is_no_hindrance(home: str, store: FileStore) -> None:
    for after in range(8):
        with locked(home):
            writing = asyncio.create_task(put(store, f"cancelled-{after}"))
            await ticks(after)
            writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await put(store, f"m{after}")
    assert len(heads(content(inbox_file(home)))) == 8


async def test_an_inbox_that_is_gone_takes_no_message(home: str, store: FileStore) -> None:
    inbox = store.inbox(RUN)
    os.unlink(inbox_file(home))
    with pytest.raises(NoSuchRun):
        await inbox.put(Message(id="m", kind="say"))
    assert not os.path.exists(inbox_file(home))
