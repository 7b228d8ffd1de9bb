"""Any history of a run on one machine: appends, messages, closings, kills, power cuts, torn ends, lost snapshots.

However they follow on one another: what was acknowledged is in the log, the log holds nothing that was not sent, in
order and chained, the state is its fold, and every message is consumed once.
"""

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.store.base import Batch, Message
from holdfast.store.files.store import FileStore
from tests.support.disks import PAGE, LossyDisk
from tests.support.events import Label, events_in, labels_in, numbered
from tests.support.logs import assert_whole, collect, folded, is_prefix, whole
from tests.support.opened_run import StoreSession, kill
from tests.support.power_cut_outcome import Drawn
from tests.support.run_files import RUN, content, inbox_file, log_file, put_content, remove, snapshot_file

BEGIN = SessionStart(command="resume")

sizes = st.sampled_from([0, 0, 0, 200, PAGE, 3 * PAGE])
commits = st.lists(st.lists(sizes, min_size=1, max_size=3), min_size=1, max_size=5)  # by producer, event by event
names = st.integers(0, 12).map("m{}".format)

opened = precondition(lambda machine: machine.session is not None)
unopened = precondition(lambda machine: machine.session is None)


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def machine_is_new(self) -> None:
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.home = os.path.join(self.folder, "home")
        self.loop = asyncio.Runner()
        self.lossy = LossyDisk()
        self.store = FileStore(self.home, disk=self.lossy.disk)
        self.session: StoreSession | None = None
        self.submitted: list[Label] = []
        self.acknowledged: list[Label] = []
        self.ends = {0}  # how many were submitted at the end of each call
        self.sent: set[str] = set()
        self.put: set[str] = set()
        self.taken: list[str] = []
        self.snapshots: list[bytes] = []
        self.read, self.repaired = b"", True
        self.loop.run(self.store.create(RUN))

    # the owner

    @unopened
    @rule()
    def open(self) -> None:
        self.loop.run(self._open())

    @unopened
    @rule(calls=st.integers(0, 8), data=st.data())
    def open_and_lose_power(self, calls: int, data: st.DataObject) -> None:
        """The power goes somewhere in the repair, or in the first append."""

        async def story() -> None:
            self.lossy.fail_after(calls)
            with suppress(HoldfastError):
                self.session = await StoreSession.open(self.store, RUN)
                await self.session.run.begin_session(BEGIN)

        self.loop.run(story())
        self.power_cut(data)

    @opened
    @rule(commit=commits)
    def append(self, commit: list[list[int]]) -> None:
        self.loop.run(self._append(commit))
        assert self.acknowledged == self.submitted

    @opened
    @rule(commit=commits, calls=st.integers(0, 1), data=st.data())
    def append_and_lose_power(self, commit: list[list[int]], calls: int, data: st.DataObject) -> None:
        self.lossy.fail_after(calls)
        self.loop.run(self._append(commit))
        self.power_cut(data)

    @opened
    @rule(commit=commits, closes=st.booleans())
    def append_and_fail(self, commit: list[list[int]], closes: bool) -> None:
        """The disk refuses a sync, for once. What it forgot must not be built upon."""
        self.lossy.next_sync_fails = True
        self.loop.run(self._append(commit))
        assert self.acknowledged != self.submitted
        if closes:
            self.close()
        else:
            self.kill()

    @opened
    @rule()
    def take_in(self) -> None:
        assert self.session is not None
        self.taken += [message.id for message in self.loop.run(self.session.run.consume_inbox())]

    @opened
    @rule(calls=st.integers(0, 2), data=st.data())
    def take_in_and_lose_power(self, calls: int, data: st.DataObject) -> None:
        assert self.session is not None
        self.lossy.fail_after(calls)
        with suppress(StorageFailed):
            self.taken += [message.id for message in self.loop.run(self.session.run.consume_inbox())]
        self.power_cut(data)

    @opened
    @rule()
    def save_snapshot(self) -> None:
        assert self.session is not None
        self.loop.run(self.session.run.save_snapshot())
        self.snapshots.append(content(snapshot_file(self.home)))

    @opened
    @rule()
    def close(self) -> None:
        assert self.session is not None
        self.loop.run(self.session.close())
        self.session = None

    @opened
    @rule()
    def kill(self) -> None:
        assert self.session is not None
        self.loop.run(kill(self.session))
        self.session = None

    # the others

    @rule(name=names, size=sizes)
    def put_message(self, name: str, size: int) -> None:
        self.sent.add(name)
        self.loop.run(self._put(name, size))
        self.put.add(name)

    @rule(name=names, size=sizes, calls=st.integers(0, 1))
    def put_and_die(self, name: str, size: int, calls: int) -> None:
        """The sender is killed before its write, or between that and its sync."""
        self.sent.add(name)
        self.lossy.fail_after(calls)
        with suppress(StorageFailed):
            self.loop.run(self._put(name, size))
            raise AssertionError("acknowledged without a sync")
        self.lossy.calls_left = None

    @rule(length=st.integers(1, 200))
    def tear_inbox(self, length: int) -> None:
        line = b'{"v":1,"ts":"2026-01-01T00:00:00.000Z","sid":"x","seq":0,"type":"inbox.message","data":{"id":"torn'
        self.lossy.tear(inbox_file(self.home), (line + b"x" * 200)[:length])

    @precondition(lambda machine: machine.repaired)
    @rule()
    def read_on(self) -> None:
        """A reader with a cursor of its own. Before the repair it could see lines behind a hole, which are then cut."""
        self.read += self.loop.run(self._read(len(self.read)))

    # the machine

    @unopened
    @rule(length=st.integers(1, 5000))
    def tear_log(self, length: int) -> None:
        """An owner was killed in the middle of a write."""
        line = b'{"v":1,"ts":"2026-01-01T00:00:00.000Z","sid":"torn","seq":0,"type":"task.completed","data":{"taskId":"'
        self.lossy.tear(log_file(self.home), (line + b"x" * 5000)[:length])

    @rule(data=st.data())
    def power_cut(self, data: st.DataObject) -> None:
        if self.session is not None:
            self.kill()
        self.lossy.cut(Drawn(data))
        self.read, self.repaired = b"", False

    @unopened
    @rule(data=st.data())
    def meddle_with_snapshot(self, data: st.DataObject) -> None:
        """It is gone, or damaged, or an old one comes back."""
        path = snapshot_file(self.home)
        if os.path.exists(path):
            self.snapshots.append(content(path))
        if not self.snapshots or data.draw(st.booleans(), label="gone"):
            remove(path)
            return
        old = bytearray(data.draw(st.sampled_from(self.snapshots)))
        if data.draw(st.booleans(), label="damaged"):
            old[data.draw(st.integers(0, len(old) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        put_content(path, bytes(old))

    # what holds at all times

    @invariant()
    def all_is_well(self) -> None:
        if self.session is not None:
            self._check(self.loop.run(whole(self.store, RUN)))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            if self.session is None:
                self.open()
                self.all_is_well()
            self.take_in()
            self.all_is_well()
            assert self.put <= set(self.taken), "a message that was acknowledged was never consumed"
            self.close()
        finally:
            self.loop.close()
            shutil.rmtree(self.folder)

    def _check(self, data: bytes) -> None:
        assert self.session is not None
        assert_whole(data)
        assert data == content(log_file(self.home))
        assert self.session.run.state == folded(data)
        assert self.session.run.head.position == len(data)
        labels = labels_in(data)
        assert is_prefix(self.acknowledged, labels)
        assert is_prefix(labels, self.submitted)
        assert len(labels) in self.ends, "half of a call"
        self.ends = {end for end in self.ends if end <= len(labels)}
        self.submitted, self.acknowledged = list(labels), list(labels)
        consumed = [event.message for event in events_in(data) if isinstance(event, InboxConsumed)]
        assert len(set(consumed)) == len(consumed), "consumed twice"
        assert is_prefix(self.taken, consumed)
        assert set(consumed) <= self.sent
        self.taken = consumed
        assert data.startswith(self.read)

    async def _open(self) -> None:
        self.session = await StoreSession.open(self.store, RUN)
        self.repaired = True
        assert self.session.run.state.malformed == []
        await self.session.run.begin_session(BEGIN)

    async def _append(self, commit: list[list[int]]) -> None:
        assert self.session is not None
        appends, labels = [], []
        for producer, events in enumerate(commit):
            own = [(f"p{producer}", len(self.submitted) + index) for index in range(len(events))]
            self.submitted += own
            self.ends.add(len(self.submitted))
            labels.append(own)
            drafts = [numbered(*label, size) for label, size in zip(own, events, strict=True)]
            appends.append(self.session.run.append(*drafts))
        for own, outcome in zip(labels, await asyncio.gather(*appends, return_exceptions=True), strict=True):
            if isinstance(outcome, Batch):
                assert labels_in(outcome.data) == own
                self.acknowledged += own
            else:
                assert isinstance(outcome, StorageFailed)

    async def _put(self, name: str, size: int) -> None:
        body = msgspec.Raw(msgspec.json.encode("x" * size))
        await self.store.inbox(RUN).put(Message(id=name, kind="say", body=body))

    async def _read(self, after: int) -> bytes:
        return await collect(self.store.log(RUN).read(after), after)


def test_any_history_keeps_what_was_acknowledged() -> None:
    run_state_machine_as_test(StoreMachine, settings=settings(max_examples=50, stateful_step_count=40))


@pytest.mark.torture
def test_any_long_history_keeps_what_was_acknowledged() -> None:
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=1_500, stateful_step_count=80, derandomize=False)
    )
