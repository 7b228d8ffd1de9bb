"""A sync that fails is the kernel's last try: what it gave up can still be read, and nobody may build on it."""

import os
import subprocess
import sys

import pytest

from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.disks import LossyDisk
from tests.support.events import START, labels_in, numbered
from tests.support.logs import whole
from tests.support.opened_run import StoreSession, kill
from tests.support.real_power_cut import NOT_POSSIBLE
from tests.support.run_files import RUN, log_file
from tests.support.thin_pool import SCENES

SHORT = ("a_step_of_a_session", "a_message_after_a_refused_one")
OTHERS = [scene for scene in SCENES if scene not in SHORT]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class Nothing:
    """Nothing of what was not synced is left by a power cut."""

    def size(self, low: int, high: int, ends: list[int]) -> int:
        return low

    def keeps(self, page: int) -> bool:
        return False


@pytest.mark.parametrize("scene", [*SHORT, *(pytest.param(scene, marks=pytest.mark.torture) for scene in OTHERS)])
def test_what_was_acknowledged_survives_a_real_power_cut_after(disk: os.PathLike[str], scene: str) -> None:
    command = [sys.executable, "-m", "tests.support.thin_pool", os.fspath(disk), scene]
    done = subprocess.run(["unshare", "--mount", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == NOT_POSSIBLE or "unshare" in done.stderr:
        pytest.skip(f"NOT TESTED: a real power cut ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("looked", [True, False], ids=["the owner looked", "nobody looked"])
async def test_a_message_that_follows_a_refused_one_is_not_lost_with_it(home: str, looked: bool) -> None:
    lossy = LossyDisk()
    store = FileStore(home, disk=lossy.disk)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    lossy.next_sync_fails = True
    with pytest.raises(StorageFailed, match=f"may have arrived nonetheless: check `holdfast show {RUN}`"):
        await store.inbox(RUN).put(Message(id="refused", kind="say"))
    taken = await taken_in(store) if looked else []
    await store.inbox(RUN).put(Message(id="acknowledged", kind="say"))
    lossy.cut(Nothing())
    assert taken + await taken_in(store) == ["acknowledged"]


async def test_a_message_that_its_reader_cannot_sync_is_not_there_for_the_next(home: str) -> None:
    """Its sender was killed before it could; the owner's sync fails, and the owner looks again."""
    lossy = LossyDisk()
    store = FileStore(home, disk=lossy.disk)
    await store.create(RUN)
    lossy.fail_after(1)
    with pytest.raises(StorageFailed):
        await store.inbox(RUN).put(Message(id="unsynced", kind="say"))
    lossy.calls_left = None
    session = await StoreSession.open(store, RUN)
    await session.run.begin_session(START)
    lossy.next_sync_fails = True
    with pytest.raises(StorageFailed):
        await session.run.consume_inbox()
    assert await session.run.consume_inbox() == []
    await kill(session)
    await store.inbox(RUN).put(Message(id="acknowledged", kind="say"))
    lossy.cut(Nothing())
    assert await taken_in(store) == ["acknowledged"]


async def test_what_an_opening_could_not_sync_the_next_does_not_build_on(home: str) -> None:
    lossy = LossyDisk()
    store = FileStore(home, disk=lossy.disk)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    killed = b'{"sid":"dead","seq":0,"type":"task.completed","data":{"taskId":"unsynced","summary":"0"}}\n'
    lossy.tear(log_file(home), killed)
    lossy.next_sync_fails = True
    with pytest.raises(StorageFailed):
        await StoreSession.open(store, RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START, numbered("acknowledged", 0))
    lossy.cut(Nothing())
    assert labels_in(await whole(store, RUN)) == [("acknowledged", 0)]


async def taken_in(store: FileStore) -> list[str]:
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        return [message.id for message in await run.consume_inbox()]
