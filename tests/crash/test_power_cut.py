"""What was not synced is thrown away, page by page. What was acknowledged stays, and nothing is invented."""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.store.base import Batch, Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.disks import PAGE, LossyDisk, PowerCutOutcome
from tests.support.events import START, Label, labels_in, numbered
from tests.support.logs import assert_whole, folded, is_prefix, whole
from tests.support.memory import in_memory
from tests.support.opened_run import StoreSession, kill
from tests.support.power_cut_outcome import NOTHING_LEFT, Drawn, Fixed
from tests.support.run_files import RUN, content, log_file

RESUME = SessionStart(command="resume")

sizes = st.sampled_from([0, 0, 100, 1500, PAGE - 330, 3 * PAGE, 20_000])
Commit = list[list[int]]  # of several calls, the events of each by their sizes

commits = st.lists(st.lists(sizes, min_size=1, max_size=4), min_size=1, max_size=6)
long_commits = st.lists(st.lists(sizes, min_size=1, max_size=4), min_size=1, max_size=40)


@contextmanager
def new_home() -> Iterator[str]:
    with in_memory() as folder:
        yield os.path.join(folder, "home")


class Machine:
    """A run on a disk that forgets, and what its writer knows of it."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.lossy = LossyDisk()
        self.store = FileStore(home, disk=self.lossy.disk)
        self.submitted: list[Label] = []
        self.acknowledged: list[Label] = []
        self.ends = {0}  # how many were submitted at the end of each call

    def number(self, call: list[int]) -> list[Label]:
        labels = [("p", len(self.submitted) + index) for index in range(len(call))]
        self.submitted += labels
        self.ends.add(len(self.submitted))
        return labels

    async def commit(self, session: StoreSession, calls: Commit) -> None:
        """Append at once, each call by its own producer, so that they share a commit."""
        numbers = [self.number(call) for call in calls]
        outcomes = await asyncio.gather(
            *(
                session.run.append(*(numbered(*label, size) for label, size in zip(labels, call, strict=True)))
                for labels, call in zip(numbers, calls, strict=True)
            ),
            return_exceptions=True,
        )
        for labels, outcome in zip(numbers, outcomes, strict=True):
            if isinstance(outcome, Batch):
                self.acknowledged += labels
            else:
                assert isinstance(outcome, StorageFailed)

    async def check(self) -> None:
        """After a reopening: all that was acknowledged, nothing not sent, whole calls, in order, chained."""
        data = await whole(self.store, RUN)
        assert_whole(data)
        assert content(log_file(self.home)) == data
        labels = labels_in(data)
        assert is_prefix(self.acknowledged, labels)
        assert is_prefix(labels, self.submitted)
        assert len(labels) in self.ends, "half of a call"
        self.submitted, self.acknowledged = list(labels), list(labels)
        self.ends = {end for end in self.ends if end <= len(labels)}

    async def go_on(self) -> None:
        async with open_run(self.store, RUN) as run:
            await self.check()
            assert run.state == folded(await whole(self.store, RUN))
            assert run.state.malformed == []
            (label,) = self.number([0])
            await run.begin_session(RESUME, numbered(*label))
            self.acknowledged.append(label)
        await self.check()


async def life(home: str, history: list[Commit], last: Commit, calls: int, outcome: PowerCutOutcome) -> Machine:
    """Commit a history, then lose the power `calls` calls into one more commit."""
    machine = Machine(home)
    await machine.store.create(RUN)
    session = await StoreSession.open(machine.store, RUN)
    await session.run.begin_session(START)
    for commit in history:
        await machine.commit(session, commit)
    assert machine.acknowledged == machine.submitted
    machine.lossy.fail_after(calls)
    await machine.commit(session, last)
    assert machine.acknowledged != machine.submitted
    await kill(session)
    machine.lossy.cut(outcome)
    return machine


def run(coroutine: Coroutine[None, None, None]) -> None:
    asyncio.run(coroutine)


@pytest.mark.parametrize("examples", [80, pytest.param(500, marks=pytest.mark.torture)])
def test_after_any_power_cut_the_log_goes_on(examples: int) -> None:
    """Also when the power goes again during the repair: a crash in recovery is just another crash."""

    @settings(max_examples=examples)
    @given(
        history=st.lists(commits, max_size=4),
        last=commits,
        written=st.booleans(),
        repairs_cut=st.lists(st.integers(0, 6), max_size=2),
        data=st.data(),
    )
    def each(history: list[Commit], last: Commit, written: bool, repairs_cut: list[int], data: st.DataObject) -> None:
        with new_home() as home:
            run(goes_on_over_repairs_cut(home, history, last, int(written), repairs_cut, Drawn(data)))

    each()


async def goes_on_over_repairs_cut(
    home: str, history: list[Commit], last: Commit, calls: int, repairs_cut: list[int], outcome: PowerCutOutcome
) -> None:
    machine = await life(home, history, last, calls, outcome)
    for left in repairs_cut:
        machine.lossy.fail_after(left)
        with suppress(HoldfastError):
            session = await StoreSession.open(machine.store, RUN)
            with suppress(HoldfastError):
                await session.run.begin_session(RESUME)
            await kill(session)
        machine.lossy.cut(outcome)
    await machine.go_on()
    await machine.go_on()


@pytest.mark.torture
@settings(max_examples=10_000, derandomize=False)
@given(history=st.lists(commits, max_size=6), last=long_commits, data=st.data())
def test_after_any_power_cut_the_log_goes_on_at_length(
    history: list[Commit], last: Commit, data: st.DataObject
) -> None:
    async def story(home: str) -> None:
        machine = await life(home, history, last, 1, Drawn(data))
        await machine.go_on()

    with new_home() as home:
        run(story(home))


@pytest.mark.parametrize("lost", [{0}, {1}, {2}, {4}, {0, 1}, {1, 3}, {2, 3, 4}])
@pytest.mark.parametrize("short", [0, 1, 2, 3, 200])
async def test_a_hole_in_the_last_commit_takes_all_after_it_along(home: str, lost: set[int], short: int) -> None:
    """Even where the end of the commit is there, whole, or whole but for its last bytes."""
    events = [[1500]] * 12
    probe = await life(home + "-probe", [], events, 1, Fixed())
    length = os.path.getsize(log_file(probe.home)) - short
    assert length > 5 * PAGE
    machine = await life(home, [], events, 1, Fixed(length, frozenset(lost)))
    await machine.go_on()
    assert len(machine.submitted) <= 1 + min(lost) * PAGE // 1500


@pytest.mark.parametrize("lost", [{0}, {1}, {2}, {4}, {1, 3}])
@pytest.mark.parametrize("short", [0, 1, 2, 200, 2100])
async def test_a_hole_takes_the_calls_along_that_it_is_in(home: str, lost: set[int], short: int) -> None:
    calls = [[1500] * count for count in (1, 3, 2, 1, 4)]
    probe = await life(home + "-probe", [], calls, 1, Fixed())
    length = os.path.getsize(log_file(probe.home)) - short
    machine = await life(home, [], calls, 1, Fixed(length, frozenset(lost)))
    await machine.go_on()
    assert len(machine.submitted) <= 1 + min(lost) * PAGE // 1500


async def test_a_line_over_many_pages_is_whole_or_absent(home: str) -> None:
    for page in range(6):
        place = f"{home}-{page}"
        machine = await life(place, [[[0]]], [[5 * PAGE]], 1, Fixed(lost=frozenset({page})))
        await machine.go_on()
        assert machine.submitted == [("p", 0), ("p", 1)]


async def test_nothing_that_was_not_synced_is_needed(home: str) -> None:
    machine = await life(home, [[[0]], [[10], [20]], [[5000]]], [[0], [0]], 1, NOTHING_LEFT)
    await machine.go_on()
    assert len(machine.submitted) == 5


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("outcome", [NOTHING_LEFT, Fixed(), Fixed(lost=None)], ids=["nothing", "all", "zeros"])
async def test_what_a_failed_sync_forgot_makes_no_hole_under_later_events(
    home: str, outcome: PowerCutOutcome, end: str
) -> None:
    """The kernel tries once; after that only what is in memory looks as if it were on the disk."""
    machine = Machine(home)
    await machine.store.create(RUN)
    session = await StoreSession.open(machine.store, RUN)
    await session.run.begin_session(START)
    await machine.commit(session, [[0], [0]])
    machine.lossy.next_sync_fails = True
    await machine.commit(session, [[3 * PAGE], [3 * PAGE, 0]])
    assert len(machine.acknowledged) == 2
    await (kill(session) if end == "killed" else session.close())
    await machine.go_on()
    machine.lossy.cut(outcome)
    await machine.go_on()


def say(name: str) -> Message:
    return Message(id=name, kind="say", body=msgspec.Raw(b'{"text":"hello"}'))


@pytest.mark.parametrize("outcome", [NOTHING_LEFT, Fixed(), Fixed(lost=None)], ids=["nothing", "all", "zeros"])
async def test_a_message_that_is_consumed_before_it_is_synced_hides_no_later_one(
    home: str, outcome: PowerCutOutcome
) -> None:
    """A sender dies between its write and its sync; the owner reads what it wrote; then the power goes."""
    lossy = LossyDisk()
    store = FileStore(home, disk=lossy.disk)
    await store.create(RUN)
    await store.inbox(RUN).put(say("m1"))
    lossy.fail_after(1)
    with pytest.raises(StorageFailed):
        await store.inbox(RUN).put(say("m2"))
    lossy.calls_left = None
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    taken = [message.id for message in await session.run.consume_inbox()]
    assert taken == ["m1", "m2"]
    await kill(session)
    lossy.cut(outcome)
    await store.inbox(RUN).put(say("m3"))
    await store.inbox(RUN).put(say("m4"))
    async with open_run(store, RUN) as run_:
        await run_.begin_session(RESUME)
        assert [message.id for message in await run_.consume_inbox()] == ["m3", "m4"]


@settings(max_examples=150)
@given(sent=st.lists(st.tuples(sizes, st.integers(0, 2)), min_size=1, max_size=6), data=st.data())
def test_after_any_power_cut_every_acknowledged_message_is_consumed_once(
    sent: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Each message comes with the number of calls after which the power goes; 2 is enough to be acknowledged."""

    async def story(home: str) -> None:
        lossy = LossyDisk()
        store = FileStore(home, disk=lossy.disk)
        await store.create(RUN)
        acknowledged, taken = [], []
        for number, (size, calls) in enumerate(sent):
            body = msgspec.Raw(msgspec.json.encode("x" * size))
            if calls < 2:
                lossy.fail_after(calls)
            try:
                await store.inbox(RUN).put(Message(id=f"m{number}", kind="say", body=body))
            except StorageFailed:
                pass
            else:
                acknowledged.append(f"m{number}")
            if calls < 2:
                lossy.cut(Drawn(data))
            if data.draw(st.booleans()):
                taken += await take_in(store)
        taken += await take_in(store)
        assert len(taken) == len(set(taken))
        assert [name for name in taken if name in acknowledged] == acknowledged

    async def take_in(store: FileStore) -> list[str]:
        async with open_run(store, RUN) as run_:
            await run_.begin_session(RESUME)
            return [message.id for message in await run_.consume_inbox()]

    with new_home() as home:
        run(story(home))
