"""The files backend: a folder a run, nothing to install, everything readable with ordinary tools."""

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from holdfast.core.events.log import LogRepaired
from holdfast.leaf.clock import Clock, now
from holdfast.leaf.errors import BadInput, NoSuchRun, RunExists, StorageFailed
from holdfast.leaf.failpoints import around
from holdfast.leaf.files.directories import sync_directory
from holdfast.store import snapshot
from holdfast.store.base import Desk, Holder, Snapshot
from holdfast.store.files import create as making
from holdfast.store.files import owner
from holdfast.store.files.disk import REAL, Appending, Disk, make_directories, replace
from holdfast.store.files.inbox import FileInbox
from holdfast.store.files.journal import FileJournal
from holdfast.store.files.layout import INBOX, LOCK, LOG, SNAPSHOT, run_folder, runs_folder, trash_folder
from holdfast.store.files.reading import FileLog
from holdfast.store.files.repair import repair, repairs
from holdfast.store.files.watch import Watcher

_CRASH_IN_SNAPSHOT = Appending("snapshot.save")
_CRASH_IN_REPAIR = around("log.repair")
_CRASH_IN_DISCARDING = around("run.discard")


class FileStore:
    def __init__(self, home: str, *, clock: Clock = now, disk: Disk = REAL) -> None:
        self.home = os.path.abspath(home)
        self._clock = clock
        self._disk = disk
        self._watcher = Watcher()

    async def create(self, run_id: str) -> None:
        folder = self._named(run_id)
        try:
            make_directories(runs_folder(self.home))
            making.make(folder)
            os.utime(runs_folder(self.home))  # whoever watches it looks again: now there is a run
        except FileExistsError:
            raise RunExists(f"run {run_id} is there already; choose another name, or resume it") from None
        except OSError as error:
            raise StorageFailed(f"cannot create {folder}: {error.strerror or error}") from error

    async def runs(self) -> Sequence[str]:
        try:
            names = os.listdir(runs_folder(self.home))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _can_be_a_run(name) and os.path.exists(self._file(name, LOG)))

    async def discard(self, run_id: str) -> None:
        """The folder is moved away before it is deleted, so that half of a run is never taken for one."""
        async with self.own(run_id):
            gone = os.path.join(trash_folder(self.home), f"{run_id}.{secrets.token_hex(4)}")
            try:
                _CRASH_IN_DISCARDING.before()
                make_directories(trash_folder(self.home))
                os.rename(self._named(run_id), gone)
                sync_directory(runs_folder(self.home))
                _CRASH_IN_DISCARDING.after()
            except OSError as error:
                raise StorageFailed(f"cannot move {run_id} to {trash_folder(self.home)}: {error.strerror}") from error
            shutil.rmtree(gone, ignore_errors=True)
            with suppress(OSError):  # another is being deleted there
                os.rmdir(trash_folder(self.home))

    @asynccontextmanager
    async def own(self, run_id: str) -> AsyncIterator["FileLease"]:
        self._must_exist(run_id)
        lock = await owner.acquire(self._file(run_id, LOCK), self._clock)
        try:
            yield FileLease(self._file(run_id, LOG), self._file(run_id, SNAPSHOT), lock, self._disk)
        finally:
            lock.release()

    async def holder(self, run_id: str) -> Holder | None:
        self._must_exist(run_id)
        return owner.holder(self._file(run_id, LOCK))

    def log(self, run_id: str) -> FileLog:
        return FileLog(self._must_exist(run_id), self._watcher)

    def inbox(self, run_id: str) -> FileInbox:
        self._must_exist(run_id)
        return FileInbox(self._file(run_id, INBOX), self._clock, self._disk, self._watcher)

    def report_file(self, path: str) -> FileInbox:
        """A file of an inbox's lines, for a confined agent: its owner collects from it (`Inbox.collect_reports`)."""
        return FileInbox(path, self._clock, self._disk, self._watcher)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        log = self.log(run_id)
        try:
            with open(self._file(run_id, SNAPSHOT), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return await snapshot.from_bytes(data, log)

    def _must_exist(self, run_id: str) -> str:
        path = self._file(run_id, LOG)
        if not os.path.exists(path):
            raise NoSuchRun(f"there is no run {run_id!r} under {self.home}; `holdfast ls` lists them")
        return path

    def _file(self, run_id: str, name: str) -> str:
        return os.path.join(self._named(run_id), name)

    def _named(self, run_id: str) -> str:
        if not _can_be_a_run(run_id):
            raise BadInput(f"{run_id!r} cannot be a run's id: it names a folder under {runs_folder(self.home)}")
        return run_folder(self.home, run_id)


def _can_be_a_run(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name


class FileLease:
    def __init__(self, log: str, snapshot_file: str, lock: owner.OwnerLock, disk: Disk) -> None:
        self._log = log
        self._snapshot = snapshot_file
        self._lock = lock
        self._disk = disk

    @property
    def epoch(self) -> int:
        return self._lock.epoch

    async def repair(self) -> Sequence[LogRepaired]:
        try:
            _CRASH_IN_REPAIR.before()
            await repair(self._log, self._disk)
            _CRASH_IN_REPAIR.after()
            return await repairs(self._log)
        except OSError as error:
            raise StorageFailed(
                f"cannot set aside the torn end of {self._log}: {error.strerror}; free the disk and open the run again"
            ) from error

    async def journal(self, desk: Desk) -> FileJournal:
        return FileJournal(self._log, desk, self._lock.held, self._disk)

    async def save(self, snapshot_: Snapshot) -> None:
        """Best effort: a snapshot that cannot be written costs the next opening some time, and nothing else."""
        with suppress(OSError, OverflowError):
            replace(self._snapshot, snapshot.to_bytes(snapshot_), _CRASH_IN_SNAPSHOT.writing_on(self._disk))
            _CRASH_IN_SNAPSHOT.after()
