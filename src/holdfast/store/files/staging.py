"""Stages: runs that are written out of sight, and appear complete or not at all.

A stage is a home of its own below `adopting/`. Its run is written there like any other, and one rename makes it a run
of the real home. A process that dies before that leaves a stage: nobody holds its lock any more, and its note says what
else was done for the run.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import remove_tree, sync_directory
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.store.files.layout import run_folder, runs_folder

_LOCK, _NOTE = "lock", "note.json"
_FAILPOINT_NOTE, _FAILPOINT_PUBLISH = failpoint_pair("stage.note"), failpoint_pair("stage.publish")


def stages_folder(home: str) -> str:
    return os.path.join(home, "adopting")


class Stage:
    """A stage that this process owns, until it is closed or the process dies."""

    def __init__(self, home: str, folder: str, lock: int) -> None:
        self._home = home
        self.folder = folder
        self._lock = lock

    @classmethod
    def create(cls, home: str) -> Self:
        folder = os.path.join(stages_folder(home), secrets.token_hex(6))
        make_directories(folder)
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cls(home, folder, lock)

    def write_note(self, note: bytes) -> None:
        """Record durably what is about to be done elsewhere for the run of the stage."""
        _FAILPOINT_NOTE.before()
        replace(os.path.join(self.folder, _NOTE), note)
        _FAILPOINT_NOTE.after()

    def read_note(self) -> bytes | None:
        with suppress(OSError), open(os.path.join(self.folder, _NOTE), "rb") as file:
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
        remove_tree(self.folder)
        with suppress(OSError):  # another stage is there
            os.rmdir(stages_folder(self._home))

    def close(self) -> None:
        os.close(self._lock)


def abandoned_stages(home: str) -> Iterator[Stage]:
    """Yield the stages that dead processes left, each owned by this one from then on."""
    try:
        names = sorted(os.listdir(stages_folder(home)))
    except FileNotFoundError:
        return
    for name in names:
        folder = os.path.join(stages_folder(home), name)
        with suppress(OSError):
            lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            yield Stage(home, folder, lock)
