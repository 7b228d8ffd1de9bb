"""The inbox: durable when `put` returns, in order, each id once, consumed once whatever dies in between."""

import asyncio

import msgspec
import pytest

from holdfast.core.events.inbox import InboxConsumed, InboxRejected
from holdfast.leaf.errors import BadInput
from holdfast.store.base import InboxEntry, Message, Store
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.events import START, events_in, numbered
from tests.support.logs import assert_whole, closed, folded, whole
from tests.support.opened_run import StoreSession
from tests.support.wait import PATIENCE


def message(name: str) -> Message:
    return Message(id=name, kind="say", sender="someone", body=msgspec.Raw(msgspec.json.encode({"text": name})))


def content(found: Message) -> tuple[str, str, str | None, object]:
    return found.id, found.kind, found.sender, msgspec.json.decode(found.body)


async def put_all(store: Store, *names: str) -> None:
    for name in names:
        await store.inbox(RUN).put(message(name))


async def received(store: Store, after: int = 0) -> list[InboxEntry]:
    return [one async for one in store.inbox(RUN).read(after)]


def consumed_in(data: bytes) -> list[str]:
    return [event.message for event in events_in(data) if isinstance(event, InboxConsumed)]


async def test_to_ask_whether_it_takes_messages_leaves_none(store: Store) -> None:
    inbox = store.inbox(RUN)
    await inbox.check_writable()
    await put_all(store, "a")
    await inbox.check_writable()
    await put_all(store, "b")
    assert [one.message.id for one in await received(store) if one.message is not None] == ["a", "b"]
    assert len(await received(store)) == 2


async def test_messages_come_in_the_order_they_were_put(backend: Backend, store: Store) -> None:
    await put_all(store, "m1", "m2", "m3")
    found = await received(backend.store())
    assert [content(one.message) for one in found if one.message] == [
        (name, "say", "someone", {"text": name}) for name in ("m1", "m2", "m3")
    ]
    cursors = [one.cursor for one in found]
    assert cursors == sorted(set(cursors))


async def test_a_cursor_reads_on_from_every_message(store: Store) -> None:
    await put_all(store, "m1", "m2", "m3")
    found = await received(store)
    for index, one in enumerate(found):
        assert [r.cursor for r in await received(store, one.cursor)] == [r.cursor for r in found[index + 1 :]]


async def test_the_same_id_twice_is_one_message(store: Store) -> None:
    await put_all(store, "m1", "m2", "m1", "m2", "m3")
    found = await received(store)
    assert [one.message.id for one in found if one.message] == ["m1", "m2", "m3"]
    assert [one.reason for one in found if one.message is None] == [
        "duplicate of message m1",
        "duplicate of message m2",
    ]


async def test_an_id_from_before_the_cursor_is_known_after_it(backend: Backend, store: Store) -> None:
    await put_all(store, "m1", "m2")
    cursor = (await received(store))[-1].cursor
    await put_all(store, "m1", "m3")
    found = await received(backend.store(), cursor)
    assert [one.message.id if one.message else None for one in found] == [None, "m3"]


async def test_messages_of_many_writers_all_arrive(backend: Backend, store: Store) -> None:
    async def write(writer: int) -> None:
        inbox = backend.store().inbox(RUN)
        for number in range(10):
            await inbox.put(message(f"{writer}-{number}"))

    await asyncio.gather(*(write(writer) for writer in range(8)))
    names = [one.message.id for one in await received(store) if one.message]
    for writer in range(8):
        assert [name for name in names if name.startswith(f"{writer}-")] == [f"{writer}-{n}" for n in range(10)]
    assert len(names) == 80


@pytest.mark.parametrize(
    "body",
    [
        b'{\n  "a": 1,\n  "b": ["\\n"]\n}',
        b"1",
        b"null",
        b"  [1, 2]  ",
        '"é\u2028🌊"'.encode(),
        b'"' + b"x" * 300_000 + b'"',
    ],
    ids=["pretty", "number", "null", "spaces", "unicode", "long"],
)
async def test_a_body_comes_out_as_it_went_in(store: Store, body: bytes) -> None:
    await store.inbox(RUN).put(Message(id="m", kind="say", body=msgspec.Raw(body)))
    await put_all(store, "next")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        found = await run.consume_inbox()
    assert [one.id for one in found] == ["m", "next"]
    assert msgspec.json.decode(found[0].body) == msgspec.json.decode(body)
    data = await whole(store, RUN)
    assert_whole(data)
    (event,) = (e for e in events_in(data) if isinstance(e, InboxConsumed) and e.message == "m")
    assert msgspec.json.decode(event.body) == msgspec.json.decode(body)


@pytest.mark.parametrize("body", [b"{not JSON", b"", b'"\xff"', b'1},"id":"x","y":{"z":1'])
async def test_a_body_that_could_not_be_read_is_refused_and_not_taken(store: Store, body: bytes) -> None:
    with pytest.raises(BadInput):
        await store.inbox(RUN).put(Message(id="m", kind="say", body=msgspec.Raw(body)))
    await put_all(store, "next")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert [one.id for one in await run.consume_inbox()] == ["next"]
        assert run.state.malformed == []
    assert not [event for event in events_in(await whole(store, RUN)) if isinstance(event, InboxRejected)]


async def test_following_waits_for_what_comes(backend: Backend, store: Store) -> None:
    async def follow() -> list[str]:
        names = []
        following = store.inbox(RUN).follow()
        async for one in following:
            if one.message:
                names.append(one.message.id)
            if len(names) == 4:
                break
        await closed(following)
        return names

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        followers = [group.create_task(follow()) for _ in range(5)]
        for name in ("m1", "m2", "m1", "m3", "m4"):
            await put_all(backend.store(), name)
    assert [follower.result() for follower in followers] == [["m1", "m2", "m3", "m4"]] * 5


async def test_what_is_taken_in_is_in_the_log_and_comes_once(backend: Backend, store: Store) -> None:
    await put_all(store, "m1", "m2", "m1")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert [content(one) for one in await run.consume_inbox()] == [
            (name, "say", "someone", {"text": name}) for name in ("m1", "m2")
        ]
        assert await run.consume_inbox() == []
        await put_all(backend.store(), "m3", "m2")
        assert [one.id for one in await run.consume_inbox()] == ["m3"]
        assert run.state.inbox_consumed == 3
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert await run.consume_inbox() == []
        await put_all(store, "m4", "m1")
        assert [one.id for one in await run.consume_inbox()] == ["m4"]
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert consumed_in(data) == ["m1", "m2", "m3", "m4"]
    assert len([event for event in events_in(data) if isinstance(event, InboxRejected)]) == 3


async def test_taking_in_nothing_writes_nothing(store: Store) -> None:
    async with open_run(store, RUN) as run:
        end = (await run.begin_session(START)).end
        assert await run.consume_inbox() == []
        assert run.head.position == end


async def test_an_owner_who_dies_between_reading_and_writing_has_consumed_nothing(
    backend: Backend, store: Store
) -> None:
    await put_all(store, "m1", "m2")
    first = await StoreSession.open(store, RUN)
    await first.run.begin_session(START)
    assert len(await received(store, first.run.state.inbox_cursor)) == 2
    await backend.kill(first)
    async with open_run(backend.store(), RUN) as run:
        await run.begin_session(START)
        assert [one.id for one in await run.consume_inbox()] == ["m1", "m2"]


async def test_an_owner_who_dies_after_taking_in_has_consumed(backend: Backend, store: Store) -> None:
    await put_all(store, "m1", "m2")
    first = await StoreSession.open(store, RUN)
    await first.run.begin_session(START)
    assert len(await first.run.consume_inbox()) == 2
    await backend.kill(first)
    await put_all(store, "m3")
    async with open_run(backend.store(), RUN) as run:
        await run.begin_session(START)
        assert [one.id for one in await run.consume_inbox()] == ["m3"]
    assert consumed_in(await whole(store, RUN)) == ["m1", "m2", "m3"]


async def test_two_who_take_in_at_once_share_the_messages(store: Store) -> None:
    await put_all(store, "m1", "m2", "m3")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        taken = await asyncio.gather(*(run.consume_inbox() for _ in range(4)), run.append(numbered("a", 1)))
        assert sorted(one.id for found in taken[:4] if isinstance(found, list) for one in found) == ["m1", "m2", "m3"]
    assert consumed_in(await whole(store, RUN)) == ["m1", "m2", "m3"]


@pytest.mark.parametrize("after", range(6))
async def test_a_cancelled_take_in_consumes_all_or_nothing(store: Store, after: int) -> None:
    """What it consumed is in the log, where the next who looks finds it."""
    await put_all(store, "m1", "m2")
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        taking = asyncio.create_task(run.consume_inbox())
        for _ in range(after):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await run.consume_inbox()
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert consumed_in(data) == ["m1", "m2"]


async def test_only_the_first_message_of_an_id_is_put(backend: Backend, store: Store) -> None:
    other = Message(id="m1", kind="say", sender="another", body=msgspec.Raw(b'{"text":"no"}'))
    assert await store.inbox(RUN).put_if_absent(message("m1")) is None
    first = await backend.store().inbox(RUN).put_if_absent(other)
    assert first is not None
    assert content(first) == content(message("m1"))
    assert [content(one.message) for one in await received(store) if one.message] == [content(message("m1"))]
    assert len(await received(store)) == 1


async def test_of_many_that_put_one_id_at_once_one_succeeds(backend: Backend, store: Store) -> None:
    bodies = [Message(id="m", kind="say", sender=str(n), body=msgspec.Raw(b"{}")) for n in range(20)]
    firsts = await asyncio.gather(*(backend.store().inbox(RUN).put_if_absent(one) for one in bodies))
    assert [first is None for first in firsts].count(True) == 1
    (only,) = await received(store)
    assert only.message is not None
    assert {first.sender for first in firsts if first is not None} == {only.message.sender}
