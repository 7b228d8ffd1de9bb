"""Somebody cut the inbox short, emptied it or put an older one in its place: what is sent then is taken in, once."""

import asyncio
import os
from collections.abc import Callable

import pytest

from holdfast.core.events.inbox import InboxConsumed, InboxReread
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run
from tests.support.events import START, events_in
from tests.support.logs import assert_whole, closed, folded, whole
from tests.support.opened_run import StoreSession, kill
from tests.support.run_files import RUN, content, inbox_file, put_content
from tests.support.wait import PATIENCE

BEFORE = ["m1", "m2", "m3"]

Meddling = Callable[[bytes], bytes]
WAYS: dict[str, Meddling] = {
    "emptied": lambda _: b"",
    "cut in a line": lambda data: data[: len(data) - len(data) // 6],
    "cut after a line": lambda data: data[: data.index(b"\n") + 1],
    "cut before a newline": lambda data: data[:-1],
}


async def put(store: FileStore, *names: str) -> None:
    for name in names:
        await store.inbox(RUN).put(Message(id=name, kind="say"))


async def taken(run: OwnedRun) -> list[str]:
    return [message.id for message in await run.consume_inbox()]


async def read_before(home: str) -> FileStore:
    store = FileStore(home)
    await store.create(RUN)
    await put(store, *BEFORE)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert await taken(run) == BEFORE
        assert await taken(run) == []
        assert run.state.warnings == []
    return store


@pytest.mark.parametrize("sent", range(5))
@pytest.mark.parametrize("way", WAYS)
async def test_what_was_sent_since_is_taken_in_once(home: str, way: str, sent: int) -> None:
    """Each as long as those before: the new may end in the very place where the old did."""
    store = await read_before(home)
    put_content(inbox_file(home), WAYS[way](content(inbox_file(home))))
    new = [f"n{number}" for number in range(sent)]
    await put(store, *new)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert await run.has_unread() == bool(sent)
        assert await taken(run) == new
        assert len(run.state.warnings) == (way != "cut before a newline" or not sent)
        await put(store, "later")
        assert await taken(run) == ["later"]
        assert not await run.has_unread()
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert await taken(run) == []
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert consumed_in(data) == [*BEFORE, *new, "later"]


async def test_it_is_noticed_while_the_owner_is_there(home: str) -> None:
    store = await read_before(home)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        os.truncate(inbox_file(home), 0)
        await put(store, "m4")
        assert await taken(run) == ["m4"]
    assert consumed_in(await whole(store, RUN)) == [*BEFORE, "m4"]


@pytest.mark.parametrize("way", ["cut short", "another in its place"])
async def test_whoever_waits_for_what_comes_is_woken(home: str, way: str) -> None:
    """Also by what stands before the place that was read so far, and by what comes into a file that is new there."""
    store = await read_before(home)
    async with open_run(store, RUN) as run, asyncio.timeout(PATIENCE):
        await run.begin_session(START)
        waiting = store.inbox(RUN).changes()
        await anext(waiting)
        if way == "cut short":
            os.truncate(inbox_file(home), 0)
        else:
            put_content(f"{inbox_file(home)}.old", b"")
            os.rename(f"{inbox_file(home)}.old", inbox_file(home))
        for message in ("m4", "m5"):
            await put(store, message)
            found: list[str] = []
            while not found:
                await anext(waiting)
                found = await taken(run)
            assert found == [message]
        await closed(waiting)


async def test_that_it_is_read_again_and_what_is_found_are_one_commit(home: str) -> None:
    """Killed in between, the next would take in what was taken in before."""
    store = await read_before(home)
    put_content(inbox_file(home), WAYS["cut after a line"](content(inbox_file(home))))
    await put(store, "m4")
    first = await StoreSession.open(store, RUN)
    await first.run.begin_session(START)
    before = len(await whole(store, RUN))
    await first.run.consume_inbox()
    await kill(first)
    data = await whole(store, RUN)
    for cut in range(before, len(data), 17):
        place = f"{home}-{cut}"
        copy = FileStore(place)
        await copy.create(RUN)
        put_content(inbox_file(place), content(inbox_file(home)))
        put_content(os.path.join(os.path.dirname(inbox_file(place)), "events.jsonl"), data[:cut])
        async with open_run(copy, RUN) as run:
            await run.begin_session(START)
            await run.consume_inbox()
        log = await whole(copy, RUN)
        assert consumed_in(log) == [*BEFORE, "m4"]
        assert sum(isinstance(event, InboxReread) for event in events_in(log)) == 1


def consumed_in(data: bytes) -> list[str]:
    return [event.message for event in events_in(data) if isinstance(event, InboxConsumed)]
