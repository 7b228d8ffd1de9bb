"""What nobody could read back is refused before it is acknowledged; what got in all the same stops nobody."""

import os

import msgspec
import pytest

from holdfast.core.events import Event
from holdfast.core.events.conversation import ToolCalled
from holdfast.core.events.effect import EffectIntended
from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import BadInput
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

START = SessionStart(command="run")


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def nested_list(depth: int) -> list[object]:
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize("depth", range(600, 1000, 7))
async def test_an_event_is_refused_or_there_for_good_however_deep(home: str, depth: int) -> None:
    store = FileStore(home)
    await store.create("r1")
    events: list[Event] = [
        ToolCalled(conversation="c", call="1", tool="t", input=msgspec.Raw(nested(depth))),
        EffectIntended(effect="e", kind="k", arguments={"deep": nested_list(depth)}),
    ]
    acknowledged = 1
    async with open_run(store, "r1") as run:
        await run.begin_session(START)
        for event in events:
            try:
                await run.append(event)
            except BadInput:
                continue
            acknowledged += 1
    os.unlink(f"{home}/runs/r1/snapshot.json")
    async with open_run(store, "r1") as run:
        assert (run.state.events, run.state.malformed, run.state.repairs) == (acknowledged, [], [])


@pytest.mark.parametrize(
    "line",
    [
        b'{"sid":"x","seq":0,"type":"inbox.message","data":{"id":"bad","kind":"say","body":"\xff"}}',
        b'{"sid":"x","seq":0,"type":"inbox.message","data":{"id":"bad","kind":"\xff","body":1}}',
        b'{"sid":"x","seq":0,"type":"inbox.message","data":{"id":"bad","kind":"say","body":' + nested(100_000) + b"}}",
    ],
)
async def test_a_bad_line_in_the_inbox_is_rejected_and_the_next_message_arrives(home: str, line: bytes) -> None:
    store = FileStore(home)
    await store.create("r1")
    with open(f"{home}/runs/r1/inbox.jsonl", "ab") as inbox:
        inbox.write(line + b"\n")
    await store.inbox("r1").put(Message(id="good", kind="say"))
    async with open_run(store, "r1") as run:
        await run.begin_session(START)
        assert [message.id for message in await run.consume_inbox()] == ["good"]
        assert list(run.state.messages) == ["good"]


@pytest.mark.parametrize("depth", range(300, 1000, 13))
async def test_a_message_is_refused_or_taken_in_however_deep(home: str, depth: int) -> None:
    store = FileStore(home)
    await store.create("r1")
    sent = []
    for name, body in (("deep", nested(depth)), ("next", b"1")):
        try:
            await store.inbox("r1").put(Message(id=name, kind="say", body=msgspec.Raw(body)))
        except BadInput:
            continue
        sent.append(name)
    async with open_run(store, "r1") as run:
        await run.begin_session(START)
        assert [message.id for message in await run.consume_inbox()] == sent


async def test_a_record_of_ownership_that_is_garbage_keeps_nobody_out(home: str) -> None:
    store = FileStore(home)
    await store.create("r1")
    with open(f"{home}/runs/r1/owner.lock", "wb") as lock:
        lock.write(b'{"epoch":3,"holder":{"host":"\xff"')
    async with open_run(store, "r1") as run:
        await run.begin_session(START)
        assert await store.holder("r1") is not None


async def test_a_newer_log_is_not_even_repaired(home: str) -> None:
    store = FileStore(home)
    await store.create("r1")
    path = f"{home}/runs/r1/events.jsonl"
    before = b'{"v":2,"sid":"s","seq":0,"type":"x","data":{}}\n{"v":2,"to'
    with open(path, "wb") as log:
        log.write(before)
    with pytest.raises(BadInput, match="newer"):
        async with open_run(store, "r1"):
            pass
    with open(path, "rb") as log:
        assert log.read() == before
