"""A disk that refuses: nothing of that commit is acknowledged, nothing is written after a hole, resuming goes on."""

import asyncio
import errno
import fcntl
import os
import random

import msgspec
import pytest

from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import HoldfastError, StorageFailed
from holdfast.store.base import Message
from holdfast.store.files import inbox as inboxes
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.crash_suite.small_disk import must_be_one_line
from tests.support.crash_suite.suite import FailpointSuites
from tests.support.disks import FailingDisk, short_writes
from tests.support.events import START, Label, labels_in, numbered
from tests.support.logs import assert_whole, folded, is_prefix, whole
from tests.support.opened_run import StoreSession, kill
from tests.support.run_files import RUN, inbox_file, torn_pieces
from tests.support.wait import open_descriptors, until

RESUME = SessionStart(command="resume")


async def made(home: str) -> None:
    await FileStore(home).create(RUN)


async def assert_goes_on(home: str, acknowledged: list[Label], submitted: list[Label]) -> None:
    """With a healthy disk: all that was acknowledged, nothing that was not sent, no hole, and it can be written."""
    store = FileStore(home)
    async with open_run(store, RUN) as run:
        assert run.state == folded(await whole(store, RUN))
        assert run.state.malformed == []
        await run.begin_session(RESUME, numbered("z", 0))
    data = await whole(store, RUN)
    assert_whole(data)
    labels = labels_in(data)
    assert labels.pop() == ("z", 0)
    assert is_prefix(acknowledged, labels)
    assert is_prefix(labels, submitted)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize(("kind", "leaves"), [("write", 0), ("write", 1), ("write", 400), ("sync", 0)])
@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_the_disk_fails_at_any_call(home: str, kind: str, leaves: int, code: int, end: str) -> None:
    for fails_at in range(6):
        place = f"{home}-{fails_at}"
        await made(place)
        failing = FailingDisk(kind, fails_at, code, leaves)
        session = await StoreSession.open(FileStore(place, disk=failing.disk), RUN)
        acknowledged: list[Label] = []
        submitted: list[Label] = []
        refused = False
        for number in range(8):
            labels = [("a", 3 * number + index) for index in range(3)]
            submitted += labels
            outcomes = await asyncio.gather(
                *(session.run.append(numbered(*label, 100)) for label in labels), return_exceptions=True
            )
            if refused or any(isinstance(outcome, BaseException) for outcome in outcomes):
                refused = True
                assert [type(outcome) for outcome in outcomes] == [StorageFailed] * 3
                failing.healed = number > 6  # too late: a hole may be there, only opening again can tell
            else:
                acknowledged += labels
        assert acknowledged == submitted[: 3 * fails_at]
        failing.healed = True
        await (kill(session) if end == "killed" else session.close())
        await assert_goes_on(place, acknowledged, submitted)


async def test_the_error_says_what_to_do(home: str) -> None:
    await made(home)
    async with open_run(FileStore(home, disk=FailingDisk("write", 0).disk), RUN) as run:
        with pytest.raises(StorageFailed, match=r"No space left on device.*resume"):
            await run.begin_session(START)


async def test_a_failure_between_appends_of_one_commit_fails_all_of_them(home: str) -> None:
    await made(home)
    failing = FailingDisk("sync", 1)
    async with open_run(FileStore(home, disk=failing.disk), RUN) as run:
        await run.begin_session(START)
        outcomes = await asyncio.gather(
            *(run.append(numbered("a", number)) for number in range(20)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [StorageFailed] * 20
        assert run.state.lines == 1
    await assert_goes_on(home, [], [("a", number) for number in range(20)])


async def test_a_snapshot_that_cannot_be_saved_costs_nothing(home: str) -> None:
    await made(home)
    failing = FailingDisk("write", 1)
    store = FileStore(home, disk=failing.disk)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.save_snapshot()
    assert await store.snapshot(RUN) is None
    assert not [name for name in os.listdir(os.path.dirname(inbox_file(home))) if name.endswith(".tmp")]
    await assert_goes_on(home, [], [])


async def test_a_commit_that_fails_while_the_run_is_closed_is_told_and_all_is_released(home: str) -> None:
    await made(home)
    before = open_descriptors()
    failing = FailingDisk("sync", 1)
    async with open_run(FileStore(home, disk=failing.disk), RUN) as run:
        await run.begin_session(START)
        tasks = [asyncio.create_task(run.append(numbered("a", number))) for number in range(3)]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StorageFailed] * 3
    await until(lambda: open_descriptors() <= before)
    await assert_goes_on(home, [], [("a", number) for number in range(3)])


async def test_opening_and_closing_leaves_nothing_open(home: str) -> None:
    await made(home)
    before = open_descriptors()
    for turn in range(5):
        failing = FailingDisk("write", turn)
        with open(os.path.join(os.path.dirname(inbox_file(home)), "events.jsonl"), "ab") as file:
            file.write(b"torn")
        try:
            async with open_run(FileStore(home, disk=failing.disk), RUN) as run:
                await run.begin_session(RESUME)
        except HoldfastError:
            pass
    await until(lambda: open_descriptors() <= before)


@pytest.mark.parametrize("length", [1, 7, 4096])
async def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(home: str, length: int) -> None:
    await made(home)
    store = FileStore(home, disk=short_writes(lambda _: length))
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.append(numbered("a", 1), numbered("a", 2, 10_000))
        await store.inbox(RUN).put(Message(id="m", kind="say"))
        assert [message.id for message in await run.consume_inbox()] == ["m"]
    await assert_goes_on(home, [("a", 1), ("a", 2)], [("a", 1), ("a", 2)])
    assert await FileStore(home).snapshot(RUN) is not None


async def test_a_disk_of_moods_gets_every_byte(home: str) -> None:
    await made(home)
    dice = random.Random(7)
    store = FileStore(home, disk=short_writes(lambda offered: dice.randint(1, offered)))
    labels = [("a", number) for number in range(60)]
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        for label in labels:
            await run.append(numbered(*label, dice.randint(0, 500)))
    await assert_goes_on(home, labels, labels)


@pytest.mark.parametrize(("kind", "leaves"), [("write", 0), ("write", 1), ("write", 100), ("sync", 0)])
async def test_a_message_that_the_disk_refused_was_not_taken(home: str, kind: str, leaves: int) -> None:
    for fails_at in range(4):
        place = f"{home}-{fails_at}"
        await made(place)
        failing = FailingDisk(kind, fails_at, leaves=leaves)
        inbox = FileStore(place, disk=failing.disk).inbox(RUN)
        acknowledged = []
        for number in range(6):
            message = Message(id=f"m{number}", kind="say", body=msgspec.Raw(b'"' + b"x" * 300 + b'"'))
            try:
                await inbox.put(message)
            except StorageFailed as refusal:
                assert "may have arrived nonetheless" in str(refusal)  # noqa: PT017 - each call may do either
                failing.healed = number > 3
            else:
                acknowledged.append(message.id)
        assert acknowledged == [f"m{number}" for number in range(6) if number < fails_at or number > 4]
        store = FileStore(place)
        async with open_run(store, RUN) as run:
            await run.begin_session(START)
            taken = [message.id for message in await run.consume_inbox()]
            assert await run.consume_inbox() == []
        assert [name for name in taken if name in acknowledged] == acknowledged
        assert len(set(taken)) == len(taken)
        if kind == "write":
            assert taken == acknowledged
            assert len(torn_pieces(inbox_file(place))) == (leaves > 0)


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_an_inbox_that_takes_no_message_says_so(home: str, kind: str) -> None:
    await made(home)
    failing = FailingDisk(kind, 0)
    inbox = FileStore(home, disk=failing.disk).inbox(RUN)
    with pytest.raises(StorageFailed, match="agents cannot report to the run; fix this, then resume the run"):
        await inbox.check_writable()
    failing.healed = True
    await inbox.check_writable()


async def test_an_inbox_that_somebody_writes_in_takes_messages(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long they keep others from it: nobody's turn is cut off by that."""
    await made(home)
    monkeypatch.setattr(inboxes, "_LOCK_WAIT_S", 0.01)
    with open(inbox_file(home), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        await FileStore(home).inbox(RUN).check_writable()


@pytest.mark.parametrize("failpoint", ["journal.append.after:65:enospc", "journal.append.torn:71:eio"])
async def test_a_log_that_fails_while_several_agents_are_at_work_is_told_of_in_one_line(
    suites: FailpointSuites, failpoint: str
) -> None:
    """Each of them is ended, and of none is anything written any more."""
    trial = await suites("waves").survives(failpoint)
    must_be_one_line(trial.ended[0])
