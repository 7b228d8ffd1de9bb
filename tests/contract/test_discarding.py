"""A run that is discarded is gone for good, and never half."""

import os

import pytest

from holdfast.leaf.errors import NoSuchRun, RunOwned
from holdfast.store.base import Message, Store
from holdfast.store.files.layout import run_folder, runs_folder, trash_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.contract.backends import Backend
from tests.contract.conftest import RUN
from tests.support.children import discard_and_die
from tests.support.events import START, numbered
from tests.support.logs import whole
from tests.support.opened_run import StoreSession
from tests.support.processes import KILLED, child


async def test_a_discarded_run_is_gone_for_everyone(backend: Backend, store: Store) -> None:
    await store.create("other-aaaaaa")
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("a", 1))
    await store.inbox(RUN).put(Message(id="m1", kind="say"))
    await store.discard(RUN)
    for one in (store, backend.store()):
        assert list(await one.run_ids()) == ["other-aaaaaa"]
        with pytest.raises(NoSuchRun, match=RUN):
            one.log(RUN)
        with pytest.raises(NoSuchRun, match=RUN):
            await one.holder(RUN)


async def test_its_name_is_free_again_and_nothing_of_it_comes_back(store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        await run.save_snapshot()
    await store.inbox(RUN).put(Message(id="m1", kind="say"))
    await store.discard(RUN)
    await store.create(RUN)
    assert await whole(store, RUN) == b""
    assert await store.snapshot(RUN) is None
    assert [received async for received in store.inbox(RUN).read()] == []
    async with open_run(store, RUN) as run:
        assert run.state.lines == 0


async def test_a_run_that_somebody_owns_is_not_discarded(backend: Backend, store: Store) -> None:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        with pytest.raises(RunOwned):
            await backend.store().discard(RUN)
        await run.append(numbered("a", 1))
    assert list(await store.run_ids()) == [RUN]
    await store.discard(RUN)
    assert list(await store.run_ids()) == []


async def test_a_run_whose_owner_died_is_discarded(backend: Backend, store: Store) -> None:
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    await backend.kill(session)
    await backend.store().discard(RUN)
    assert list(await store.run_ids()) == []


async def test_what_is_not_there_cannot_be_discarded(store: Store) -> None:
    with pytest.raises(NoSuchRun, match="nobody-aaaaaa"):
        await store.discard("nobody-aaaaaa")
    await store.discard(RUN)
    with pytest.raises(NoSuchRun, match=RUN):
        await store.discard(RUN)


# Files


async def test_no_file_of_it_is_left(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    os.makedirs(os.path.join(run_folder(home, RUN), "tasks", "T-1"))
    await store.discard(RUN)
    assert os.listdir(home) == [os.path.basename(runs_folder(home))]
    assert os.listdir(runs_folder(home)) == []


async def test_killed_between_the_move_and_the_deletion_no_half_run_is_left(home: str) -> None:
    """What is in the trash is whole, and is no run; the next discarding is not hindered by it."""
    store = FileStore(home)
    await store.create(RUN)
    with child(discard_and_die, home) as discarding:
        assert discarding.wait() == KILLED
    assert list(await store.run_ids()) == []
    (left,) = os.listdir(trash_folder(home))
    assert left.startswith(f"{RUN}.")
    await store.create(RUN)
    assert await whole(store, RUN) == b""
    await store.discard(RUN)
    assert os.listdir(trash_folder(home)) == [left]
