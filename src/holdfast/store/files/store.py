"""The files backend: one folder per run, nothing to install, everything readable with ordinary tools."""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from holdfast.core.day_spending import Spending
from holdfast.core.events.log import LogRepaired
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput, NoSuchRun, RunExists, StorageFailed
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import REAL_DISK, AppendFailpoints, Disk, disk_advice, make_directories, replace
from holdfast.leaf.files.watch import Watcher
from holdfast.store import snapshot
from holdfast.store.base import Head, Holder, Leftover, Snapshot, WriterContext
from holdfast.store.files import owner
from holdfast.store.files.account_limits import FileLimits
from holdfast.store.files.compaction import expand_log
from holdfast.store.files.create import create_run_folder
from holdfast.store.files.inbox import FileInbox
from holdfast.store.files.journal import FileJournal
from holdfast.store.files.layout import INBOX, LOCK, LOG, SNAPSHOT, has_log, run_folder, runs_folder, trash_folder
from holdfast.store.files.leftovers import leftovers
from holdfast.store.files.reading import FileLog
from holdfast.store.files.release import wait_until_unlocked
from holdfast.store.files.repair import find_repairs, repair
from holdfast.store.files.run_watch import FolderWatch
from holdfast.store.files.spending import count_run

_FAILPOINT_SNAPSHOT = AppendFailpoints("snapshot.save")
_FAILPOINT_FILE = AppendFailpoints("run.file")
_FAILPOINT_REPAIR = failpoint_pair("log.repair")
_FAILPOINT_DISCARD = failpoint_pair("run.discard")


class FileStore:
    def __init__(self, home: str, *, clock: Clock = now, disk: Disk = REAL_DISK) -> None:
        self.home = os.path.abspath(home)
        self._clock = clock
        self._disk = disk
        self._watcher = Watcher()

    async def create(self, run_id: str) -> None:
        folder = self._run_folder(run_id)
        try:
            make_directories(runs_folder(self.home))
            create_run_folder(folder)
            os.utime(runs_folder(self.home))  # notifies watchers of the folder: now there is a run
        except FileExistsError:
            raise RunExists(f"run {run_id} exists already; choose another name, or resume it") from None
        except OSError as error:
            raise StorageFailed(f"cannot create {folder}: {error.strerror or error}") from error

    async def run_ids(self) -> Sequence[str]:
        try:
            names = os.listdir(runs_folder(self.home))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _is_valid_run_id(name) and has_log(self._run_folder(name)))

    async def discard(self, run_id: str) -> None:
        """Move the folder to the trash before deleting it, so that half a run is never mistaken for one."""
        async with self.own(run_id):
            trash = os.path.join(trash_folder(self.home), f"{run_id}.{secrets.token_hex(4)}")
            try:
                _FAILPOINT_DISCARD.before()
                make_directories(trash_folder(self.home))
                os.rename(self._run_folder(run_id), trash)
                sync_directory(runs_folder(self.home))
                _FAILPOINT_DISCARD.after()
            except OSError as error:
                raise StorageFailed(f"cannot move {run_id} to {trash_folder(self.home)}: {error.strerror}") from error
            with suppress(OSError):
                os.utime(runs_folder(self.home))  # notifies watchers of the folder, as in `create`
            shutil.rmtree(trash, ignore_errors=True)
            with suppress(OSError):  # another run is being deleted there
                os.rmdir(trash_folder(self.home))

    @asynccontextmanager
    async def own(self, run_id: str) -> AsyncIterator["FileLease"]:
        self._existing_log(run_id)
        lock = await owner.acquire(self._file(run_id, LOCK), self._clock)
        try:
            yield FileLease(self._file(run_id, LOG), self._file(run_id, SNAPSHOT), lock, self._disk)
        finally:
            lock.release()

    async def holder(self, run_id: str) -> Holder | None:
        self._existing_log(run_id)
        return owner.current_holder(self._file(run_id, LOCK))

    async def wait_until_released(self, run_id: str) -> None:
        await wait_until_unlocked(self._file(run_id, LOCK), run_id)

    @asynccontextmanager
    async def watch_runs(self) -> AsyncIterator[FolderWatch]:
        async with FolderWatch(self.home, self._watcher) as watch:
            yield watch

    def log(self, run_id: str) -> FileLog:
        return FileLog(self._existing_log(run_id), self._watcher)

    def inbox(self, run_id: str) -> FileInbox:
        self._existing_log(run_id)
        return FileInbox(self._file(run_id, INBOX), self._clock, self._disk, self._watcher)

    async def save_file(self, run_id: str, name: str, data: bytes) -> None:
        self._existing_log(run_id)
        path = self._file(run_id, name)
        try:
            make_directories(os.path.dirname(path))
            replace(path, data, _FAILPOINT_FILE.wrap_write(self._disk))
            _FAILPOINT_FILE.after()
        except OSError as error:
            raise StorageFailed(f"cannot store {path}: {error.strerror or error}") from error

    async def load_file(self, run_id: str, name: str) -> bytes | None:
        self._existing_log(run_id)
        with suppress(OSError), open(self._file(run_id, name), "rb") as file:
            return file.read()
        return None

    @property
    def limits(self) -> FileLimits:
        return FileLimits(self.home, self._disk)

    async def count_spending(self, run_id: str, repository: str) -> Spending:
        return await count_run(self.home, run_id, self.log(run_id), repository, self._disk)

    def open_report_file(self, path: str) -> FileInbox:
        return FileInbox(path, self._clock, self._disk, self._watcher)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        log = self.log(run_id)
        try:
            with open(self._file(run_id, SNAPSHOT), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return await snapshot.from_bytes(data, log)

    async def covered_head(self, run_id: str) -> Head | None:
        return snapshot.read_covered_head(self._file(run_id, SNAPSHOT))

    def leftovers(self) -> Sequence[Leftover]:
        return leftovers(self.home)

    def _existing_log(self, run_id: str) -> str:
        path = self._file(run_id, LOG)
        if not has_log(self._run_folder(run_id)):
            raise NoSuchRun(f"there is no run {run_id!r} under {self.home}; `holdfast ls` lists them")
        return path

    def _file(self, run_id: str, file_name: str) -> str:
        return os.path.join(self._run_folder(run_id), file_name)

    def _run_folder(self, run_id: str) -> str:
        if not _is_valid_run_id(run_id):
            raise BadInput(
                f"{run_id!r} is not a valid run id: it must be the name of a folder in {runs_folder(self.home)}"
            )
        return run_folder(self.home, run_id)


def _is_valid_run_id(run_id: str) -> bool:
    return bool(run_id) and not run_id.startswith(".") and "/" not in run_id and "\0" not in run_id


class FileLease:
    def __init__(self, log: str, snapshot_file: str, lock: owner.OwnerLock, disk: Disk) -> None:
        self._log = log
        self._snapshot_file = snapshot_file
        self._lock = lock
        self._disk = disk

    @property
    def epoch(self) -> int:
        return self._lock.epoch

    async def wait_until_lost(self) -> str:
        """Only the end of the process takes the lock away."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    @property
    def is_lost(self) -> bool:
        return False

    @property
    def may_have_another_owner(self) -> bool:
        return False

    async def repair(self) -> Sequence[LogRepaired]:
        try:
            expand_log(self._log, self._disk)  # of an archived run that is opened to write
            _FAILPOINT_REPAIR.before()
            await repair(self._log, self._disk)
            _FAILPOINT_REPAIR.after()
            return await find_repairs(self._log)
        except OSError as error:
            raise StorageFailed(
                f"cannot repair the torn end of {self._log}: {error.strerror}; {disk_advice(error)}"
            ) from error

    async def open_journal(self, context: WriterContext) -> FileJournal:
        return FileJournal(self._log, context, self._lock.is_held, self._disk)

    async def save_snapshot(self, snapshot_: Snapshot) -> None:
        """Best effort: without a snapshot, opening the run takes longer, nothing else."""
        with suppress(OSError, OverflowError):
            replace(self._snapshot_file, snapshot.to_bytes(snapshot_), _FAILPOINT_SNAPSHOT.wrap_write(self._disk))
            _FAILPOINT_SNAPSHOT.after()
