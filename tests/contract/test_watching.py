"""What waits for a run or looks at it from outside: released owners, changes, snapshots, reports, leftovers."""

import asyncio

import msgspec
import pytest

from holdfast.core.messages.schema import Report, try_decode_body
from holdfast.leaf.errors import BadInput
from holdfast.store.base import Message, Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START, numbered
from tests.support.opened_run import StoreSession
from tests.support.wait import PATIENCE, ticks

MISSING = "missing-aaaaaa"
CONVERSATION = "c1"


async def test_a_run_without_an_owner_is_released(store: Store) -> None:
    async with asyncio.timeout(PATIENCE):
        await store.wait_until_released(RUN)
        await store.wait_until_released(MISSING)


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
async def test_waiting_ends_with_the_owner(backend: Backend, store: Store, killed: bool) -> None:
    session = await StoreSession.open(store, RUN)
    waiting = asyncio.ensure_future(backend.store().wait_until_released(RUN))
    await ticks(20)
    assert not waiting.done()
    await (backend.kill(session) if killed else session.close())
    async with asyncio.timeout(PATIENCE):
        await waiting
    assert await store.holder(RUN) is None


async def test_a_watch_reports_runs_that_are_created_and_deleted(backend: Backend, store: Store) -> None:
    async with backend.store().watch_runs() as watch, asyncio.timeout(PATIENCE):
        watch.changed.clear()
        await store.create("other-aaaaaa")
        await watch.changed.wait()
        watch.changed.clear()
        await store.discard("other-aaaaaa")
        await watch.changed.wait()


async def test_a_watch_reports_changes_of_the_watched_run(backend: Backend, store: Store) -> None:
    async with backend.store().watch_runs() as watch, asyncio.timeout(PATIENCE):
        await watch.watch_only([RUN])
        assert watch.unwatched == 0
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
            watch.changed.clear()
            await run.append(numbered("a", 1))
            await watch.changed.wait()
        watch.changed.clear()
        await store.inbox(RUN).put(Message(id="m", kind="say"))
        await watch.changed.wait()


async def test_the_covered_head_is_that_of_the_snapshot(backend: Backend, store: Store) -> None:
    assert await store.covered_head(RUN) is None
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        await run.save_snapshot()
        covered = run.head
        await run.append(numbered("a", 2))
        assert await backend.store().covered_head(RUN) == covered != run.head


async def test_a_report_file_is_collected_into_the_inbox_once_or_refused(backend: Backend, store: Store) -> None:
    inbox = store.inbox(RUN)
    try:
        path = await inbox.create_report_file(CONVERSATION)
    except BadInput:  # a backend without files on this machine refuses both
        with pytest.raises(BadInput):
            store.open_report_file("report")
        return
    body = Report(tool="submit_case", role="worker", arguments={"notes": "done"}, conversation="forged")
    await backend.store().open_report_file(path).put(Message.of(body, message_id="r1", sender=None))
    await inbox.collect_reports()
    await inbox.collect_reports()
    bodies = [try_decode_body(entry.message.kind, entry.message.body) async for entry in inbox.read() if entry.message]
    assert bodies == [msgspec.structs.replace(body, conversation=CONVERSATION)]


async def test_whole_runs_are_no_leftovers(store: Store) -> None:
    await store.create("other-aaaaaa")
    await store.discard("other-aaaaaa")
    assert list(store.leftovers()) == []


async def test_file_of_a_run_is_kept_and_replaced(backend: Backend, store: Store) -> None:
    assert await store.load_file(RUN, "attachments/a/b.png") is None
    for data in (b"\0\xff" * 1000, b""):
        await store.save_file(RUN, "attachments/a/b.png", data)
        assert await backend.store().load_file(RUN, "attachments/a/b.png") == data
    assert await store.load_file(RUN, "attachments/a/c.png") is None
    await store.discard(RUN)
    await store.create(RUN)
    assert await store.load_file(RUN, "attachments/a/b.png") is None
