"""Ownership by a kernel lock: free the moment its holder dies, whatever a record or a pid may say."""

import asyncio
import fcntl
import os
import re
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from holdfast.leaf.errors import RunFenced, RunOwned
from holdfast.leaf.process.identity import ProcessIdentity, identify, own_identity
from holdfast.leaf.process.proc import is_dying
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.children import look_for_ever, own_once, own_until_killed
from tests.support.events import START, labels_in, numbered
from tests.support.logs import whole
from tests.support.opened_run import StoreSession
from tests.support.processes import child
from tests.support.run_files import RUN, content, lock_file, log_file, put_content, snapshot_file
from tests.support.wait import open_descriptors, until


@pytest.fixture
async def store(home: str) -> FileStore:
    store = FileStore(home)
    await store.create(RUN)
    return store


@contextmanager
def looked_at(home: str) -> Iterator[None]:
    """Somebody who only looks at the lock, and takes long about it."""
    fd = os.open(lock_file(home), os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def record_of(identity: ProcessIdentity, host: str | None = None) -> bytes:
    holder = {**identity._asdict(), "epoch": 7, "host": host or socket.gethostname(), "since": "yesterday"}
    return msgspec.json.encode({"epoch": 7, "holder": holder})


def at_once(work: Coroutine[object, None, int]) -> int:
    """What comes of it, if it never has to wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return int(done.value)
    finally:
        work.close()
    raise AssertionError("it had to wait")


async def own_once_here(store: FileStore) -> int:
    async with store.own(RUN) as lease:
        return lease.epoch


async def test_a_second_taker_is_told_who_where_and_since_when(home: str, store: FileStore) -> None:
    with child(own_until_killed, home) as owner:
        pid, epoch, _ = (int(word) for word in (owner.hear() or "").split())
        holder = await store.holder(RUN)
        assert holder is not None
        assert (holder.pid, holder.epoch, holder.host) == (pid, epoch, socket.gethostname())
        assert ProcessIdentity(holder.pid, holder.start_time, holder.boot_id).is_alive()
        expected = f"run {RUN} is owned by pid {pid} on {socket.gethostname()} since {holder.since}"
        with pytest.raises(RunOwned, match=re.escape(expected)):
            await own_once_here(store)
        with child(own_once, home) as other:
            assert (other.hear() or "").startswith(f"RunOwned: {expected}")


async def test_a_killed_owners_run_is_free_at_once(home: str, store: FileStore) -> None:
    for turn in range(5):
        with child(own_until_killed, home) as owner:
            assert (owner.hear() or "").split()[1] == str(2 * turn + 1)
            owner.kill()
        assert await store.holder(RUN) is None
        assert at_once(own_once_here(store)) == 2 * turn + 2


async def test_an_owner_that_is_dying_is_waited_for(home: str, store: FileStore) -> None:
    """It was killed, and the kernel has not taken the lock from it yet: that is no owner to be told of."""
    for turn in range(5):
        with child(own_until_killed, home, 300_000_000) as owner:
            owner.hear()
            os.kill(owner.pid, signal.SIGKILL)
            assert await own_once_here(store) == 2 * turn + 2


async def test_an_owner_that_dies_while_it_is_looked_at_is_not_told_of(
    home: str, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows any more that it was dying."""
    with child(own_until_killed, home) as owner:
        owner.hear()

        def ends_before_that(pid: int) -> bool:
            owner.kill()
            return is_dying(pid)

        monkeypatch.setattr("holdfast.store.files.owner.is_dying", ends_before_that)
        assert await own_once_here(store) == 2


async def test_of_many_processes_one_owns(home: str, store: FileStore) -> None:
    """All are told an epoch of their own, or who has it."""
    with ExitStack() as running:
        takers = [running.enter_context(child(own_once, home)) for _ in range(12)]
        answers = [taker.hear() or "" for taker in takers]
    epochs = [answer for answer in answers if answer.startswith("epoch")]
    assert epochs
    assert len(set(epochs)) == len(epochs)
    assert all(answer.startswith(("epoch", "RunOwned: ")) for answer in answers)


async def test_those_who_only_look_hinder_nobody(home: str, store: FileStore) -> None:
    """Many processes ask who owns the run, without a pause; still, whoever wants to own it can."""
    with child(own_until_killed, home) as owner:
        owner.hear()
        owner.kill()
    dead = content(lock_file(home))
    with ExitStack() as running:
        for _ in range(6):
            assert running.enter_context(child(look_for_ever, home)).hear() == "looking"
        for _ in range(60):
            put_content(lock_file(home), dead)
            assert await own_once_here(store) == 2


async def test_a_look_at_the_lock_only_delays_an_owner(home: str, store: FileStore) -> None:
    await own_once_here(store)
    with looked_at(home):
        taking = asyncio.create_task(own_once_here(store))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not taking.done()
    assert await taking == 2


async def test_a_recorded_pid_that_was_given_to_another_process_is_nobody(home: str, store: FileStore) -> None:
    """The lock is only looked at, and its record names a process that died; its pid lives on in ours."""
    me = own_identity()
    for dead in (
        me._replace(start_time=me.start_time - 1),
        me._replace(boot_id="00000000-0000-0000-0000-000000000000"),
        ProcessIdentity(2**22 + 1, 1, me.boot_id),
    ):
        put_content(lock_file(home), record_of(dead))
        with looked_at(home):
            taking = asyncio.create_task(own_once_here(store))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not taking.done()
        assert await taking == 8


async def test_a_living_holder_is_believed_at_once(home: str, store: FileStore) -> None:
    for record in (record_of(own_identity()), record_of(own_identity(), host="another-machine")):
        put_content(lock_file(home), record)
        with looked_at(home), pytest.raises(RunOwned, match=f"pid {os.getpid()}"):
            at_once(own_once_here(store))


async def test_a_holder_without_a_name_is_respected_all_the_same(home: str, store: FileStore) -> None:
    put_content(lock_file(home), b"garbage")
    fd = os.open(lock_file(home), os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(RunOwned, match="is not named"):
            await own_once_here(store)
    finally:
        os.close(fd)
    await own_once_here(store)


def test_an_identity_is_of_one_process_only() -> None:
    me = own_identity()
    assert me.is_alive()
    assert not me._replace(start_time=me.start_time + 1).is_alive()
    assert not me._replace(boot_id="another boot").is_alive()
    assert identify(2**22 + 1) is None


def test_a_zombie_is_dead() -> None:
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert os.path.exists(f"/proc/{pid}")
    assert identify(pid) is None
    os.waitpid(pid, 0)


async def test_a_lock_file_deleted_under_its_owner_ends_its_right(home: str, store: FileStore) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
        before = content(log_file(home))
        os.unlink(lock_file(home))
        with pytest.raises(RunFenced, match="another owner"):
            await run.append(numbered("a", 2))
        assert content(log_file(home)) == before
        async with open_run(store, RUN) as other:
            await other.begin_session(START, numbered("b", 1))
            with pytest.raises(RunFenced):
                await run.append(numbered("a", 3))
    assert labels_in(await whole(store, RUN)) == [("a", 1), ("b", 1)]
    assert await own_once_here(store)


async def test_a_lock_file_put_in_anothers_place_ends_its_owners_right(home: str, store: FileStore) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        put_content(f"{lock_file(home)}.new", content(lock_file(home)))
        os.rename(f"{lock_file(home)}.new", lock_file(home))
        with pytest.raises(RunFenced):
            await run.append(numbered("a", 2))


async def test_the_record_grows_and_shrinks_and_is_always_readable(home: str, store: FileStore) -> None:
    """It is written over in place: what remains of a longer one must not show."""
    for since in ("a", "a" * 300, "b", "", "c" * 100):
        clocked = FileStore(home, clock=lambda since=since: since)  # type: ignore[misc]
        async with clocked.own(RUN) as lease:
            holder = await store.holder(RUN)
            assert holder is not None
            assert (holder.since, holder.epoch) == (since, lease.epoch)


async def test_a_refused_taker_holds_nothing(home: str, store: FileStore) -> None:
    before = open_descriptors()
    async with open_run(store, RUN):
        held = open_descriptors()
        for _ in range(5):
            with pytest.raises(RunOwned):
                await StoreSession.open(store, RUN)
        await until(lambda: open_descriptors() <= held)
    await until(lambda: open_descriptors() <= before)
    assert not os.path.exists(snapshot_file(home))


async def test_the_lock_is_not_left_to_the_processes_that_an_owner_starts(home: str, store: FileStore) -> None:
    """An agent outlives its killed runner; the run must be free all the same."""
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, close_fds=False)
    try:
        assert await own_once_here(store) == 2
    finally:
        process.kill()
        await process.wait()
