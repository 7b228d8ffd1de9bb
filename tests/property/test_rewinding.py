"""A log with rewinds folds as if the abandoned parts had never been, but for what cannot be taken back."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Draft
from holdfast.core.events.rewind import RunRewound
from holdfast.core.rewind import abandoned_ranges, live_ranges
from holdfast.core.run_status import RunStatus
from holdfast.core.state import Rewind, RunState
from holdfast.engine.queries.catalog import condition_of
from holdfast.store.base import Batch, Head, Snapshot
from holdfast.store.fold import fold_log, fold_prefix
from holdfast.store.live_log import LiveLog
from holdfast.store.sequencer import Sequencer
from tests.property.test_folding import context_at, copied, events
from tests.support.memory_store import MemoryStore
from tests.support.run_files import RUN

_CARRIED = (
    *(
        "lines",
        "events",
        "sessions",
        "effects",
        "effects_settled",
        "published",
        "budget",
        "limits",
        "inbox_cursor",
        "inbox_last",
    ),
    *("inbox_reread", "inbox_consumed", "answered", "malformed", "duplicates", "unknown_types", "newer"),
    *("notes_dropped", "repairs", "withheld", "rewinds", "feature", "run", "messages", "rules", "rewinding"),
)
plain = st.lists(st.builds(Draft, events.filter(lambda event: event.type != RunRewound.type)), max_size=6)


class Written:
    """A log that is written piece by piece, each piece in one append."""

    def __init__(self) -> None:
        self.data, self.head, self.sessions = b"", Head(), 0

    def append(self, drafts: list[Draft]) -> int:
        stamp = Sequencer(context_at(self.head, sid=f"s{self.sessions}", feature=None))
        self.sessions += 1
        self.data += stamp.encode_lines(drafts)
        self.head = Head(stamp.position, stamp.link)
        return self.head.position

    def rewind(self, position: int) -> int:
        at = self.head.position
        self.append([Draft(RunRewound(at=at, position=position))])
        return at


async def _store(data: bytes) -> MemoryStore:
    store = MemoryStore()
    await store.create(RUN)
    store._runs[RUN].log += data
    return store


async def _state(data: bytes, start: Snapshot | None = None) -> RunState:
    return (await fold_log((await _store(data)).log(RUN), start)).fold.state


def _taken_back(state: RunState) -> dict[str, object]:
    """What a rewind takes back, without what agents have spent and how their sessions are reached."""
    left = {name: value for name, value in msgspec.to_builtins(state).items() if name not in _CARRIED}
    for conversation in left["conversations"].values():
        for name in (
            "cost",
            "tokens",
            "priced",
            "pid",
            "start_time",
            "boot_id",
            "token",
            "dollars",
            "estimate",
            "blank",
            "rewound",
            "last_message",
            "fork_source",
        ):
            conversation.pop(name, None)
    for phase in left["phases"].values():
        phase.pop("published", None)
    for agent in left["agents"].values():
        agent.pop("active", None)
        agent.pop("sid", None)
    for branch in left["branches"].values():
        branch.pop("prepared", None)
    return left


def condition_after(now: RunState, then: RunState) -> str:
    """How a run is listed after a rewind to a point at which it was `then`."""
    if condition_of(now) == RunStatus.ARCHIVED:
        return RunStatus.ARCHIVED
    if condition_of(then) != RunStatus.OPEN:
        return condition_of(then)
    return EndReason.IDLE if then.is_chat else EndReason.REWOUND


@settings(max_examples=150, deadline=None)
@given(plain, plain)
def test_state_after_a_rewind_is_that_of_the_prefix(before: list[Draft], abandoned: list[Draft]) -> None:
    written = Written()
    position = written.append(before)
    prefix = written.data
    written.append(abandoned)
    written.rewind(position)

    async def compare() -> None:
        now, then = await _state(written.data), await _state(prefix)
        assert _taken_back(now) == _taken_back(then)
        assert not now.rewinds or condition_of(now) == condition_after(now, then)
        whole = await _state(written.data[: now.rewinds[-1].at]) if now.rewinds else then
        assert now.budget == whole.budget
        assert now.messages.keys() == whole.messages.keys()
        assert now.inbox_cursor == whole.inbox_cursor

    asyncio.run(compare())


@settings(max_examples=25, deadline=None)
@given(plain, plain, plain, plain)
def test_a_snapshot_anywhere_folds_to_the_same(
    before: list[Draft], abandoned: list[Draft], after: list[Draft], last: list[Draft]
) -> None:
    """With two rewinds, the second of which takes the first back."""
    written = Written()
    position = written.append(before)
    ends = [position, written.append(abandoned)]
    first = written.rewind(position)
    ends += [written.head.position, written.append(after)]
    written.rewind(first)
    ends += [written.head.position, written.append(last)]

    async def compare() -> None:
        expected = await _state(written.data)
        for end in ends:
            store = await _store(written.data[:end])
            fold, head, _ = await fold_log(store.log(RUN))
            assert await _state(written.data, Snapshot(head, copied(fold.state))) == expected
            assert await fold_prefix((await _store(written.data)).log(RUN), end, expected.rewinds) == fold.state

    asyncio.run(compare())


@settings(max_examples=100, deadline=None)
@given(plain, plain, plain)
def test_undoing_a_rewind_brings_the_state_back(before: list[Draft], work: list[Draft], other: list[Draft]) -> None:
    written = Written()
    position = written.append(before)
    written.append(work)
    had = written.data
    at = written.rewind(position)
    written.append(other)
    written.rewind(at)

    async def compare() -> None:
        assert _taken_back(await _state(written.data)) == _taken_back(await _state(had))

    asyncio.run(compare())


work = st.lists(
    st.builds(Draft, events.filter(lambda event: not event.type.startswith(("run.rewound", "inbox.", "session.")))),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(plain, work, work)
def test_the_same_work_after_a_rewind_leads_to_the_same_state(
    before: list[Draft], abandoned: list[Draft], done: list[Draft]
) -> None:
    """As if the abandoned part had never been, but for what cannot be taken back."""
    straight, written = Written(), Written()
    straight.append(before)
    position = written.append(before)
    written.append(abandoned)
    written.rewind(position)
    straight.sessions = written.sessions  # what is in a session has its name
    straight.append(done)
    written.append(done)

    async def compare() -> None:
        assert _taken_back(await _state(written.data)) == _taken_back(await _state(straight.data))

    asyncio.run(compare())


rewinds = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=5)


@settings(max_examples=200)
@given(rewinds, st.integers(0, 10))
def test_readers_see_what_the_path_to_the_end_has(jumps: list[tuple[int, int]], rest: int) -> None:
    """Compared with a list of the numbers of the lines that count, cut and continued like the log."""
    live, end, taken, path_at = list[int](), 0, list[Rewind](), {0: list[int]()}
    for target, grown in jumps:
        for _ in range(grown):
            live = [*live, end]
            end += 1
            path_at[end] = live
        to = target % (end + 1)
        if to == end:
            continue
        taken.append(Rewind(end, to))
        live = [*path_at[to], end]
        end += 1
        path_at[end] = live
    live = [*live, *range(end, end + rest)]
    end += rest
    found = [number for start, stop in live_ranges(taken, end) for number in range(start, stop)]
    assert found == live
    lost = {number for start, stop in abandoned_ranges(taken, end) for number in range(start, stop)}
    assert lost == set(range(end)) - set(live)


@settings(max_examples=100, deadline=None)
@given(plain, plain, plain)
def test_a_live_log_reads_the_same_in_both_directions(a: list[Draft], b: list[Draft], c: list[Draft]) -> None:
    written = Written()
    position = written.append(a)
    written.append(b)
    at = written.rewind(position)
    written.append(c)

    async def compare() -> None:
        log = LiveLog((await _store(written.data)).log(RUN), [Rewind(at, position)] if at > position else [])
        expected = written.data[:position] + written.data[at:]
        assert b"".join([batch.data for batch in await _all(log.read())]) == expected
        assert b"".join([batch.data for batch in reversed(await _all(log.read_backwards()))]) == expected
        for batch in await _all(log.read_backwards(at)):
            assert batch.data == written.data[batch.start : batch.end]
            assert batch.end <= position

    asyncio.run(compare())


async def _all(batches: AsyncIterator[Batch]) -> list[Batch]:
    return [batch async for batch in batches]
