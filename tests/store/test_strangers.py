"""Somebody else lays hands on the log: its owner stops, and overwrites nothing."""

import os
import shutil
import time
from collections.abc import Callable

import pytest

from holdfast.leaf.errors import RunFenced
from holdfast.store.files.store import FileStore
from holdfast.store.files.write_guard import SETTLED_NS, WriteGuard
from holdfast.store.run import open_run
from tests.support.events import START, numbered
from tests.support.logs import assert_covered, chain_breaks, whole
from tests.support.run_files import RUN, content, lock_file, log_file, put_content
from tests.support.wait import until


def appends(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b'{"sid":"x","seq":0,"type":"note"}\n')


def appends_a_torn_line(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b'{"sid"')


def cuts(path: str) -> None:
    os.truncate(path, os.path.getsize(path) - 1)


def empties(path: str) -> None:
    os.truncate(path, 0)


def moves(path: str) -> None:
    os.rename(path, f"{path}.moved")


def deletes(path: str) -> None:
    os.unlink(path)


def replaces(path: str) -> None:
    """As an editor does: a new file, of the same length and content, under the old name."""
    shutil.copyfile(path, f"{path}.new")
    os.rename(f"{path}.new", path)


def removes_the_run(path: str) -> None:
    shutil.rmtree(os.path.dirname(path))


async def settled(home: str) -> None:
    """When the folder of the run has not changed for so long that its time can be relied on."""
    changed = os.stat(os.path.dirname(log_file(home))).st_ctime_ns
    await until(lambda: time.time_ns() - changed > SETTLED_NS)


HANDS = [appends, appends_a_torn_line, cuts, empties, moves, deletes, replaces, removes_the_run]


def files_under(folder: str) -> dict[str, bytes]:
    return {
        path: content(path)
        for where, _, names in os.walk(folder)
        for path in (os.path.join(where, name) for name in names)
    }


@pytest.mark.parametrize("quiet", [False, True], ids=["", "after-a-quiet-while"])
@pytest.mark.parametrize("hand", HANDS)
async def test_the_owner_stops_and_changes_nothing(home: str, hand: Callable[[str], None], quiet: bool) -> None:
    """Also when the folder has stood still for so long that the owner looks no further than at its time."""
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        await run.save_snapshot()
        if quiet:
            await settled(home)
            await run.append(numbered("a", 1))
            run._snapshot_at = run.head.position  # as if it were saved: saving it would change the folder
        hand(log_file(home))
        left = files_under(home)
        for number in (2, 3):
            with pytest.raises(RunFenced):
                await run.append(numbered("a", number))
        assert files_under(home) == left
    left.pop(lock_file(home), None)  # the owner signs out in it
    after = files_under(home)
    after.pop(lock_file(home), None)
    assert after == left


@pytest.mark.parametrize("hand", [moves, deletes, replaces])
async def test_an_owner_whose_lock_was_touched_stops_after_a_quiet_while(
    home: str, hand: Callable[[str], None]
) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await settled(home)
        await run.append(numbered("a", 1))
        hand(lock_file(home))
        with pytest.raises(RunFenced, match="another owner"):
            await run.append(numbered("a", 2))


async def test_unchanged_folder_is_checked_once(home: str) -> None:
    """As soon as it has not changed for so long that a later change would show in its time. The clock is the test's."""
    await FileStore(home).create(RUN)
    looks = []

    def folder_changed() -> int:
        return os.stat(os.path.dirname(log_file(home))).st_ctime_ns

    def still_owned() -> bool:
        looks.append("at the lock")
        return True

    fd = os.open(log_file(home), os.O_WRONLY | os.O_APPEND)
    now = folder_changed() + SETTLED_NS
    guard = WriteGuard(log_file(home), fd, still_owned, lambda: now)
    guard.check(0)
    guard.check(0)
    assert len(looks) == 2, "the folder is too young: what changes it now may not show"
    now += 1
    for _ in range(3):
        guard.check(0)
    assert len(looks) == 3
    put_content(f"{log_file(home)}.new", b"")
    guard.check(0)
    assert len(looks) == 4
    guard.close()
    os.close(fd)


async def test_after_a_stranger_wrote_the_run_can_be_opened_again(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        appends(log_file(home))
        with pytest.raises(RunFenced, match="something else wrote"):
            await run.append(numbered("a", 2))
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 3))
        assert run.state.unknown_types == {"note": 1}
        assert run.state.malformed == []
    async with open_run(store, RUN) as run:
        assert run.state.events == 5
    assert (await whole(store, RUN)).count(b"\n") == 5


async def test_the_chain_goes_on_after_the_lines_of_another_tool(home: str) -> None:
    """They carry no link, but take part: the next line of ours covers them."""
    store = FileStore(home)
    await store.create(RUN)
    put_content(log_file(home), b'{"sid":"x","seq":0,"type":"session.start"}\n{"sid":"x","seq":1,"type":"note"}\n\n')
    for number in range(3):
        async with open_run(store, RUN) as run:
            await run.begin_session(START, numbered("a", number))
        appends(log_file(home))
        appends(log_file(home))
    data = await whole(store, RUN)
    assert_covered(data)
    assert [number for number in range(3) if b'"summary":"%d "' % number in data] == [0, 1, 2]


async def test_one_damaged_line_is_one_break_in_the_chain_whoever_wrote_after_it(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        await run.append(numbered("a", 2))
    put_content(log_file(home), content(log_file(home)).replace(b'"summary":"1 "', b'"summary":"9 "'))
    appends(log_file(home))
    for number in range(2):
        async with open_run(store, RUN) as run:
            await run.begin_session(START, numbered("b", number))
    assert chain_breaks(await whole(store, RUN)) == 1
