"""Stages: runs that are written out of sight, and appear complete or not at all.

A stage is a home of its own below `adopting/`. Its run is written there like any other, and one rename makes it a run
of the real home. A process that dies before that leaves a stage: its lock is free, and its note says what else was
done for the run.

A stage is deleted under another name, which nothing opens. So a lock counts only while its file is still at its place.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import remove_tree, sync_directory
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.store.files.layout import run_folder, runs_folder

_LOCK, _NOTE = "lock", "note.json"
_DELETED = ".deleted-"  # before the name of a stage that is being deleted
_FAILPOINT_NOTE, _FAILPOINT_PUBLISH = failpoint_pair("stage.note"), failpoint_pair("stage.publish")


def stages_folder(home: str) -> str:
    return os.path.join(home, "adopting")


class Stage:
    """A stage that this process owns, until it is closed or the process dies."""

    def __init__(self, home: str, folder: str, lock: int) -> None:
        self._home = home
        self._folder = folder
        self._lock = lock

    @property
    def folder(self) -> str:
        return self._folder

    @classmethod
    def create(cls, home: str) -> Self:
        while True:
            folder = os.path.join(stages_folder(home), secrets.token_hex(6))
            with suppress(FileNotFoundError):  # deleted before it was locked: it looked abandoned
                make_directories(folder)
                lock = lock_stage(folder, wait=True)
                if lock is not None:
                    return cls(home, folder, lock)

    def write_note(self, note: bytes) -> None:
        """Record durably what is about to be done elsewhere for the run of the stage."""
        _FAILPOINT_NOTE.before()
        replace(os.path.join(self.folder, _NOTE), note)
        _FAILPOINT_NOTE.after()

    def read_note(self) -> bytes | None:
        """Return the note; None when the stage died before it wrote one. Raises `OSError` if it cannot be read."""
        with suppress(FileNotFoundError), open(os.path.join(self.folder, _NOTE), "rb") as file:
            return file.read()
        return None

    def publish(self, run_id: str) -> None:
        """Make the run one of the home: whole, and at once."""
        make_directories(runs_folder(self._home))
        _FAILPOINT_PUBLISH.before()
        os.rename(run_folder(self.folder, run_id), run_folder(self._home, run_id))
        sync_directory(runs_folder(self._home))
        os.utime(runs_folder(self._home))  # notifies watchers of the folder: now there is a run
        _FAILPOINT_PUBLISH.after()

    def delete(self) -> None:
        above, name = os.path.split(self.folder)
        deleted = os.path.join(above, _DELETED + name)
        with suppress(FileNotFoundError):
            os.rename(self.folder, deleted)
        remove_tree(deleted)
        with suppress(OSError):  # another stage is there
            os.rmdir(above)

    def close(self) -> None:
        os.close(self._lock)


@contextmanager
def publishing(home: str) -> Iterator[None]:
    """Let one process at a time look at the runs of a home and publish another."""
    make_directories(runs_folder(home))
    folder = os.open(runs_folder(home), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def abandoned_stages(home: str) -> Iterator[Stage]:
    """Yield the stages that dead processes left, each owned by this one from then on."""
    for name in _stage_names(home):
        folder = os.path.join(stages_folder(home), name)
        if name.startswith(_DELETED):
            remove_tree(folder)
            continue
        with suppress(OSError):
            lock = lock_stage(folder, wait=False)
            if lock is not None:
                yield Stage(home, folder, lock)
    with suppress(OSError):
        os.rmdir(stages_folder(home))


def staged_runs(home: str) -> set[str]:
    """Return the runs that are in a stage, also in one that is being written."""
    found: set[str] = set()
    for name in _stage_names(home):
        with suppress(OSError):
            found.update(os.listdir(runs_folder(os.path.join(stages_folder(home), name))))
    return found


def _stage_names(home: str) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(os.listdir(stages_folder(home)))
    return []


def lock_stage(folder: str, *, wait: bool) -> int | None:
    """Lock a stage and return the lock; None when another process has it, or deleted the stage meanwhile."""
    path = os.path.join(folder, _LOCK)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == os.stat(path).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None
