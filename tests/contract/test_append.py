"""Appending: what `append` returns is what the log holds, in order, chained, numbered; a fault fails alone."""

import asyncio
from collections.abc import Awaitable

import msgspec
import pytest

from holdfast.core.events import Draft
from holdfast.core.events.conversation import ToolReturned
from holdfast.core.events.effect import EffectHappened
from holdfast.core.events.task import TaskCompleted
from holdfast.core.log import chain
from holdfast.core.log.codec import CODEC
from holdfast.leaf.errors import BadInput, PositionMismatch, StorageFailed
from holdfast.store.base import Batch, Store
from holdfast.store.run import open_run
from tests.contract.conftest import RUN
from tests.support.events import START, by_producer, events_in, labels_in, numbered, unencodable
from tests.support.logs import assert_whole, boundaries, folded, heads, whole
from tests.support.wait import ticks


async def test_append_returns_the_lines_that_it_wrote(store: Store) -> None:
    async with open_run(store, RUN, sid="s1", feature="auth", clock=lambda: "2026-01-01T00:00:00.000Z") as run:
        first = await run.begin_session(START)
        draft = Draft(numbered("a", 1), agent="worker", pane_id="%1", trace_id="t", span_id="p")
        second = await run.append(draft, numbered("a", 2))
        assert await whole(store, RUN) == first.data + second.data
        assert (first.start, first.end, second.start) == (0, len(first.data), first.end)
        assert run.head.position == second.end
    line = heads(second.data)[0]
    assert (line.v, line.ts, line.sid, line.seq) == (1, "2026-01-01T00:00:00.000Z", "s1", 1)
    assert (line.type, line.feature, line.agent) == ("task.completed", "auth", "worker")
    assert CODEC.event(line) == draft.event
    envelope = msgspec.json.decode(second.data.splitlines()[0])
    assert (envelope["pane_id"], envelope["trace_id"], envelope["span_id"]) == ("%1", "t", "p")
    assert labels_in(second.data) == [("a", 1), ("a", 2)]


async def test_each_line_of_an_append_but_its_last_says_that_more_is_to_come(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for count in (1, 2, 3, 1):
            batch = await run.append(*(numbered("a", number) for number in range(count)))
            assert [chain.has_more_to_come(line) for line in batch.data.splitlines()] == [True] * (count - 1) + [False]


async def test_an_append_of_nothing_moves_nothing(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        head = run.head
        assert await run.append() == Batch(head.position, b"")
        assert run.head == head


async def test_each_session_counts_from_zero_and_the_chain_goes_on(store: Store) -> None:
    for session in range(4):
        async with open_run(store, RUN, sid=f"s{session}") as run:
            await run.begin_session(START, numbered("a", 2 * session))
            await run.append(numbered("a", 2 * session + 1))
    data = await whole(store, RUN)
    assert_whole(data)
    assert [line.seq for line in heads(data)] == [0, 1, 2] * 4
    assert [line.sid for line in heads(data)] == [f"s{number // 3}" for number in range(12)]


async def test_the_state_moves_with_every_append_and_comes_back(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for number in range(20):
            await run.append(numbered("a", number), numbered("b", number))
            assert run.state == folded(await whole(store, RUN))
        left = run.state
    async with open_run(store, RUN) as run:
        assert run.state == left


async def test_expecting_the_right_place_succeeds(store: Store) -> None:
    async with open_run(store, RUN) as run:
        batch = await run.begin_session(START)
        batch = await run.append(numbered("a", 1), expect=batch.end)
        await run.append(numbered("a", 2), expect=batch.end)


@pytest.mark.parametrize("off", [-1, 1, 1000])
async def test_expecting_a_wrong_place_writes_nothing(store: Store, off: int) -> None:
    async with open_run(store, RUN) as run:
        end = (await run.begin_session(START)).end
        with pytest.raises(PositionMismatch, match=str(end)):
            await run.append(numbered("a", 1), expect=end + off)
        await run.append(numbered("a", 2))
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("a", 2)]


async def test_a_wrong_expectation_fails_alone(store: Store) -> None:
    async with open_run(store, RUN) as run:
        end = (await run.begin_session(START)).end
        outcomes = await asyncio.gather(
            run.append(numbered("a", 1)),
            run.append(numbered("b", 1), expect=end - 1),
            run.append(numbered("c", 1)),
            return_exceptions=True,
        )
    assert [type(outcome) for outcome in outcomes] == [Batch, PositionMismatch, Batch]
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("a", 1), ("c", 1)]


async def test_of_many_who_expect_the_same_place_one_succeeds(store: Store) -> None:
    async with open_run(store, RUN) as run:
        end = (await run.begin_session(START)).end
        outcomes = await asyncio.gather(
            *(run.append(numbered("a", number), expect=end) for number in range(10)), return_exceptions=True
        )
    assert sum(isinstance(outcome, Batch) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, PositionMismatch) for outcome in outcomes) == 9
    assert len(labels_in(await whole(store, RUN))) == 1


@pytest.mark.parametrize("place", range(4))
async def test_an_event_that_cannot_be_encoded_fails_alone_and_leaves_no_hole(store: Store, place: int) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        appends: list[Awaitable[Batch]] = [run.append(numbered("a", number)) for number in range(3)]
        appends.insert(place, run.append(numbered("bad", 0), unencodable(), numbered("bad", 1)))
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert isinstance(outcomes.pop(place), TypeError)
        assert all(isinstance(outcome, Batch) for outcome in outcomes)
        await run.append(numbered("a", 3))
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("a", number) for number in range(4)]


@pytest.mark.parametrize(
    "output",
    [b"{not JSON", b"", b'"\xff"', b"[" * 100_000 + b"]" * 100_000, b'1},"seq":7,"data":{"x":1'],
    ids=["no-json", "empty", "no-utf8", "too-deep", "two-values"],
)
async def test_raw_data_that_could_not_be_read_back_is_refused(store: Store, output: bytes) -> None:
    """Acknowledging it would be a lie: on the next opening it would look like a torn line."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        outcomes = await asyncio.gather(
            run.append(numbered("a", 1)),
            run.append(ToolReturned(conversation="c", call="1", output=msgspec.Raw(output))),
            run.append(numbered("a", 2)),
            return_exceptions=True,
        )
    assert [type(outcome) for outcome in outcomes] == [Batch, BadInput, Batch]
    async with open_run(store, RUN) as run:
        assert run.state.malformed == []
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data) == [("a", 1), ("a", 2)]


async def test_raw_data_of_many_lines_becomes_one_line(store: Store) -> None:
    pretty = msgspec.json.format(msgspec.json.encode({"files": ["a", "b\n"], "ok": True}), indent=2)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        batch = await run.append(ToolReturned(conversation="c", call="1", output=msgspec.Raw(pretty)))
        assert run.state == folded(await whole(store, RUN))
    assert batch.data.count(b"\n") == 1
    (event,) = events_in(batch.data)
    assert isinstance(event, ToolReturned)
    assert msgspec.json.decode(event.output) == {"files": ["a", "b\n"], "ok": True}
    assert_whole(await whole(store, RUN))


async def test_raw_data_with_half_a_character_is_not_mistaken_for_a_torn_line(store: Store) -> None:
    """JSON allows it, and programs that cut text by its length write it."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.append(ToolReturned(conversation="c", call="1", output=msgspec.Raw(rb'"\ud83d"')), numbered("a", 1))
    before = await whole(store, RUN)
    async with open_run(store, RUN) as run:
        assert run.state.malformed == []
        assert run.state == folded(before)
    assert await whole(store, RUN) == before


@pytest.mark.parametrize(("name", "written"), [("caf\udce9", r"caf\xe9"), ("half \ud83d", r"half \ud83d")])
async def test_name_that_is_no_text_is_written_with_an_escape(store: Store, name: str, written: str) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        happened = EffectHappened(effect="e", settled_by="run", result={"files": [name]})
        batch = await run.append(TaskCompleted(task_id="T-1", files_changed=[name]), happened)
        assert run.state == folded(await whole(store, RUN))
    assert [msgspec.to_builtins(event) for event in events_in(batch.data)] == [
        msgspec.to_builtins(TaskCompleted(task_id="T-1", files_changed=[written])),
        msgspec.to_builtins(EffectHappened(effect="e", settled_by="run", result={"files": [written]})),
    ]
    assert_whole(await whole(store, RUN))


async def test_every_kind_of_text_comes_back_as_it_was(store: Store) -> None:
    texts = ["a\nb", "a\r\nb", "\u2028\u2029\x85", "\0", "\ufeff", '"}\n{"', "é日本🌊", "\\", " " * 9, "x" * 100_000]
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for text in texts:
            await run.append(numbered("a", 1), numbered(text, 2))
    data = await whole(store, RUN)
    assert_whole(data)
    assert [producer for producer, number in labels_in(data) if number == 2] == texts
    assert len(boundaries(data)) == 2 + 2 * len(texts)


async def test_many_producers_keep_their_own_order(store: Store) -> None:
    async def produce(name: str) -> None:
        for number in range(25):
            batch = await run.append(numbered(name, number))
            assert labels_in(batch.data) == [(name, number)]
            await ticks(number * len(name) % 3)

    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await asyncio.gather(*(produce(f"p{index}") for index in range(16)))
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert by_producer(labels_in(data)) == {f"p{index}": list(range(25)) for index in range(16)}


@pytest.mark.parametrize("victim", range(5))
@pytest.mark.parametrize("after", range(4))
async def test_a_cancelled_appender_loses_nobody_elses_event(store: Store, victim: int, after: int) -> None:
    """Whoever it is: the one who would have written for all, or one who waits for it."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        tasks = [asyncio.create_task(run.append(numbered("a", number))) for number in range(5)]
        await ticks(after)
        tasks[victim].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await run.append(numbered("a", 5))
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    survivors = [("a", number) for number in range(6) if number != victim]
    assert [label for label in labels_in(data) if label != ("a", victim)] == survivors
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Batch):
            assert labels_in(outcome.data) == [("a", number)]
        else:
            assert number == victim
            assert isinstance(outcome, asyncio.CancelledError)


@pytest.mark.parametrize("after", range(4))
async def test_when_all_are_cancelled_the_next_goes_on(store: Store, after: int) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        tasks = [asyncio.create_task(run.append(numbered("a", number))) for number in range(5)]
        await ticks(after)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await run.append(numbered("z", 0))
        assert run.state == folded(await whole(store, RUN))
    data = await whole(store, RUN)
    assert_whole(data)
    assert labels_in(data)[-1] == ("z", 0)


async def test_a_closed_journal_refuses(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    before = await whole(store, RUN)
    with pytest.raises(StorageFailed, match="closed"):
        await run.append(numbered("a", 1))
    assert await whole(store, RUN) == before


async def test_closing_waits_for_appends_that_were_under_way(store: Store) -> None:
    """Each of them is in the log and told so, or told that it is not."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        tasks = [asyncio.create_task(run.append(numbered("a", number))) for number in range(5)]
        await ticks(1)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    written = [("a", number) for number, outcome in enumerate(outcomes) if isinstance(outcome, Batch)]
    assert labels_in(await whole(store, RUN)) == written
    async with open_run(store, RUN) as run:
        assert run.state == folded(await whole(store, RUN))
