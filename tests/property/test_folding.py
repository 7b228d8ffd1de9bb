"""A snapshot taken anywhere and the lines after it give the state that all the lines give."""

import asyncio
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.events import TYPES, Draft, Event
from holdfast.core.fold.fold import Fold
from holdfast.core.state import RunState
from holdfast.store.base import Head, Snapshot, WriterContext
from holdfast.store.fold import LiveState, fold_log
from holdfast.store.sequencer import Sequencer
from tests.support.logs import boundaries, folded
from tests.support.memory_store import MemoryStore
from tests.support.run_files import RUN

words = st.sampled_from(["a", "b", "1", "2", ""])  # few, so that events speak of the same things
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: words,
    int: st.integers(0, 4),
    float: st.sampled_from([0.0, 0.25, 1.5]),
    bool: st.booleans(),
    type(None): st.none(),
    msgspec.UnsetType: st.just(msgspec.UNSET),
    Any: json_values,
    msgspec.Raw: json_values.map(lambda value: msgspec.Raw(msgspec.json.encode(value))),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Anything that fits a field of this type."""
    if kind in LEAVES:
        return LEAVES[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list or origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    assert arguments, f"no strategy for {kind}"
    return st.one_of(*map(values_of, arguments))


def structs(kind: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: values_of(field.type) for field in msgspec.structs.fields(kind)})


events: st.SearchStrategy[Event] = st.sampled_from(sorted(TYPES)).flatmap(lambda name: structs(TYPES[name]))
drafts = st.builds(Draft, events, agent=st.none() | words)
sessions = st.lists(st.lists(drafts, max_size=8), min_size=1, max_size=4)
foreign = st.sampled_from(
    [
        b"\n",
        b"garbage\n",
        b"{}\n",
        b'{"sid":"x","seq":0,"type":"session.start","feature":"f"}\n',
        b'{"sid":"x","seq":2,"type":"task.started","data":{"taskId":"a"}}\n',
        b'{"sid":"x","seq":2,"type":"task.completed","data":{"taskId":"a"}}\n',
        b'{"sid":"x","seq":1,"type":"task.failed","data":{"taskId":"a","more":1}}\n',
        b'{"sid":"y","seq":0,"type":"never.heard.of"}\n',
        b'{"v":9,"sid":"y","seq":1,"type":"task.started"}\n',
        b'{"sid":"y","seq":3,"type":"task.started","data":{"taskId":[]}}\n',
    ]
)


async def _nothing() -> None:
    pass


def context_at(head: Head, sid: str, feature: str | None) -> WriterContext:
    return WriterContext(sid, feature, head, lambda: "2026-01-01T00:00:00.000Z", lambda _: None, _nothing)


def log_of(sessions_: list[list[Draft]]) -> bytes:
    """As the journal writes it, one commit a session."""
    data, head = b"", Head()
    for number, written in enumerate(sessions_):
        context = context_at(head, sid=f"s{number}", feature="f" if number % 2 else None)
        stamp = Sequencer(context)
        data += stamp.encode_lines(written)
        head = Head(stamp.position, stamp.link)
    return data


def copied(state: RunState) -> RunState:
    """As a snapshot brings it back."""
    return msgspec.json.decode(msgspec.json.encode(state), type=RunState)


@settings(max_examples=150)
@given(sessions)
def test_a_snapshot_anywhere_and_the_tail_fold_to_the_same(sessions_: list[list[Draft]]) -> None:
    data = log_of(sessions_)
    expected = folded(data)
    assert copied(expected) == expected
    for position in boundaries(data):
        fold = Fold(copied(folded(data[:position])))
        fold.feed(data[position:])
        assert fold.state == expected


@settings(max_examples=100)
@given(sessions, st.data())
def test_it_does_not_matter_how_the_lines_come(sessions_: list[list[Draft]], choices: st.DataObject) -> None:
    """One by one, all at once, or in any batches between."""
    data = log_of(sessions_)
    cuts = sorted(choices.draw(st.sets(st.sampled_from(boundaries(data)))))
    fold = Fold()
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        fold.feed(data[start:end])
    assert fold.state == folded(data)


@settings(max_examples=100)
@given(sessions, st.data())
def test_it_does_not_matter_when_the_state_is_asked_for(sessions_: list[list[Draft]], choices: st.DataObject) -> None:
    """Lines that were only noted are folded when they are needed, and never twice."""
    data = log_of(sessions_)
    standing, position = LiveState(Fold(), 0), 0
    for end in boundaries(data):
        standing.add_lines(data[position:end])
        position = end
        if choices.draw(st.booleans()):
            assert standing.state == folded(data[:end])
    assert standing.state == standing.state == folded(data)
    assert standing.snapshot(Head(len(data))) == Snapshot(Head(len(data)), folded(data))
    assert standing.snapshot(Head(len(data) + 1)) is None


@settings(max_examples=150)
@given(sessions, st.lists(st.tuples(st.integers(0, 40), foreign), max_size=8))
def test_the_same_holds_for_logs_that_others_wrote_into(
    sessions_: list[list[Draft]], others: list[tuple[int, bytes]]
) -> None:
    """With lines that are no events, numbers that are missing, and numbers that come twice."""
    lines = log_of(sessions_).splitlines(keepends=True)
    for place, line in others:
        lines.insert(min(place, len(lines)), line)
    asyncio.run(_same_from_everywhere(lines))


async def _same_from_everywhere(lines: list[bytes]) -> None:
    expected = await _fold(lines)
    for place in range(len(lines) + 1):
        saved = await _fold(lines[:place])
        found = await _fold(lines, Snapshot(saved.head, copied(saved.state)))
        assert found == expected


async def _fold(lines: Iterable[bytes], start: Snapshot | None = None) -> Snapshot:
    store = MemoryStore()
    await store.create(RUN)
    store._runs[RUN].log += b"".join(lines)
    fold, head, _ = await fold_log(store.log(RUN), start)
    return Snapshot(head, fold.state)
