"""A disk that promised more than it has: a file system on a pool that runs full, so that a sync fails for real.

    unshare --mount python -m tests.support.thin_pool FOLDER SCENE      needs root

A write to it succeeds; what has no room is found out by the sync. Then room is made, and the power is cut. Ends with 77
and says why where the machine does not allow it.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from holdfast.agents.builtin.session_file import SessionFile, new_session_id
from holdfast.core.events.session import SessionStart
from holdfast.core.messages.schema import UserMessage
from holdfast.engine.commands.send import send
from holdfast.engine.home import Home
from holdfast.engine.reports.submit import Reporter, submit_report
from holdfast.engine.workspace.workspace import NewRun, create_run
from holdfast.leaf.errors import StorageFailed
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.events import START, labels_in, numbered
from tests.support.logs import whole
from tests.support.real_power_cut import NOT_POSSIBLE, Machine, NotPossible
from tests.support.run_files import RUN, log_file

_RESUME = SessionStart(command="resume")
_NOTHING_LATER = ("-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")  # nor in the background
_LONG = 9000  # bytes: of such an event, some are in pages that the disk has no place for yet


class ThinPool:
    def __init__(self, folder: str) -> None:
        self._pool = os.path.join(folder, "pool")
        os.mkdir(self._pool)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", self._pool], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotPossible(done.stderr)
        self._machine = Machine(self._pool, *_NOTHING_LATER)
        self._machine.power_on()
        self.home = self._machine.home
        self.mounted = self._machine.mounted

    def run_full(self) -> None:
        with suppress(OSError), open(os.path.join(self._pool, "filler"), "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def make_room(self) -> None:
        os.unlink(os.path.join(self._pool, "filler"))

    async def cut_power(self) -> None:
        await asyncio.sleep(0.05)  # readers that were left in the middle let go of their files
        self._machine.cut_power()
        self._machine.power_off()
        self._machine.power_on()

    def end(self) -> None:
        self._machine.power_off()
        subprocess.run(["umount", self._pool], check=True)

    def settle(self) -> None:
        """Have its journal written over: all but what is new in files has its place in the pool then."""
        with open(os.path.join(self.mounted, "file"), "wb", buffering=0) as file:
            for _ in range(900):
                file.seek(0)
                file.write(b"x" * 3000)
                os.fsync(file.fileno())
        os.sync()


async def _taken(home: str) -> list[str]:
    async with open_run(FileStore(home), RUN) as run:
        await run.begin_session(_RESUME)
        return [msgspec.json.decode(message.body, type=UserMessage).text for message in await run.consume_inbox()]


async def _begun(pool: ThinPool) -> None:
    store = FileStore(pool.home)
    await store.create(RUN)
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
    pool.settle()


async def _refused_message(pool: ThinPool) -> None:
    await _begun(pool)
    pool.run_full()
    try:
        await send(Home(pool.home), RUN, UserMessage("refused"))
    except StorageFailed:
        pass
    else:
        raise AssertionError("the pool was not full")
    pool.make_room()


async def a_message_after_a_refused_one(pool: ThinPool) -> None:
    await _refused_message(pool)
    await send(Home(pool.home), RUN, UserMessage("acknowledged"))
    await pool.cut_power()
    assert await _taken(pool.home) == ["acknowledged"]


async def a_message_after_the_owner_looked(pool: ThinPool) -> None:
    await _refused_message(pool)
    taken = await _taken(pool.home)
    await pool.cut_power()
    await send(Home(pool.home), RUN, UserMessage("acknowledged"))
    assert taken + await _taken(pool.home) == ["acknowledged"]


async def events_after_a_refused_opening(pool: ThinPool) -> None:
    await _begun(pool)
    with open(log_file(pool.home), "ab") as log:  # as a writer does that is killed between its write and its sync
        data = b'{"taskId":"unsynced","summary":"0 %s"}' % (b"x" * 3 * _LONG)
        log.write(b'{"sid":"dead","seq":0,"type":"task.completed","data":%s}\n' % data)
    pool.run_full()
    try:
        async with open_run(FileStore(pool.home), RUN):
            raise AssertionError("the pool was not full")
    except StorageFailed:
        pool.make_room()
    async with open_run(FileStore(pool.home), RUN) as run:
        await run.begin_session(_RESUME, numbered("acknowledged", 0))
        built_on = labels_in(await whole(FileStore(pool.home), RUN))
    await pool.cut_power()
    assert labels_in(await whole(FileStore(pool.home), RUN)) == built_on


async def a_session_after_a_refused_step(pool: ThinPool) -> None:
    folder, session = os.path.join(pool.mounted, "sessions"), new_session_id()
    file = SessionFile.create(folder, session, {"cwd": "/"})
    pool.settle()
    pool.run_full()
    try:
        file.append({"type": "message", "text": "x" * 3 * _LONG})
    except OSError:
        pool.make_room()
    else:
        raise AssertionError("the pool was not full")
    file, before = SessionFile.open(folder, session)
    file.append({"type": "message", "text": "acknowledged"})
    file.close()
    await pool.cut_power()
    file, after = SessionFile.open(folder, session)
    file.close()
    assert after == [*before, {"type": "message", "text": "acknowledged"}]


async def a_step_of_a_session(pool: ThinPool) -> None:
    folder, session = os.path.join(pool.mounted, "sessions"), new_session_id()
    file = SessionFile.create(folder, session, {"cwd": "/"})
    file.append({"type": "message", "text": "acknowledged"})
    file.close()
    await pool.cut_power()
    file, after = SessionFile.open(folder, session)
    file.close()
    assert after == [{"type": "session", "cwd": "/"}, {"type": "message", "text": "acknowledged"}]


async def commits_in_a_repository_on_another_disk(pool: ThinPool) -> None:
    """The home is not on the disk whose power is cut; the agent's commit is."""
    home, repository = f"{pool.mounted}-home", os.path.join(pool.mounted, "repository")
    _git(".", "init", "--quiet", "--initial-branch=main", repository)
    _git(repository, "commit", "--quiet", "--allow-empty", "--message=Begin")
    run_id = await create_run(Home(home), NewRun("goal", repository))
    os.sync()
    workspace = os.path.join(home, "runs", run_id, "workspace")
    with open(os.path.join(workspace, "work.txt"), "w", encoding="utf-8") as file:
        file.write("work\n" * 1000)
    _git(workspace, "add", "work.txt")
    _git(workspace, "commit", "--quiet", "--message=Work")
    done = {"summary": "done", "criteria": [{"criterion": "c", "met": True, "evidence": "e"}]}
    await submit_report(Reporter(Home(home), run_id, "worker", "w1"), "submit_case", done)
    await pool.cut_power()
    assert _git(workspace, "log", "-1", "--format=%s") == "Work\n"
    assert _git(workspace, "show", "HEAD:work.txt") == "work\n" * 1000


def _git(folder: str, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.fsync=none", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


SCENES: dict[str, Callable[[ThinPool], Awaitable[None]]] = {
    scene.__name__: scene
    for scene in (
        a_step_of_a_session,
        a_message_after_a_refused_one,
        a_message_after_the_owner_looked,
        events_after_a_refused_opening,
        a_session_after_a_refused_step,
        commits_in_a_repository_on_another_disk,
    )
}


if __name__ == "__main__":
    try:
        POOL = ThinPool(sys.argv[1])
    except NotPossible as reason:
        sys.stderr.write(str(reason))
        sys.exit(NOT_POSSIBLE)
    try:
        asyncio.run(SCENES[sys.argv[2]](POOL))  # type: ignore[arg-type]
    finally:
        POOL.end()
