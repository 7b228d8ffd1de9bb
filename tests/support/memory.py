"""Folders in memory, where a sync costs nothing: for tests that cut no power and fill no disk."""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.leaf.process.proc import pids

MEMORY = "/dev/shm"

_ROOM = 1 << 30  # bytes: a container may have a few megabytes


class Scratch(TemporaryDirectory[str]):
    """Deleted at its end, also when a program that a test left still works in it, such as the runner of a chat."""

    def cleanup(self) -> None:
        try:
            super().cleanup()
        except OSError:
            for pid in filter(self._has_named_it, pids()):
                _end(pid)
            super().cleanup()

    def _has_named_it(self, pid: int) -> bool:
        with suppress(OSError):
            return pid != os.getpid() and os.fsencode(self.name) in Path(f"/proc/{pid}/environ").read_bytes()
        return False


def in_memory() -> Scratch:
    """One that is gone with its `with`. Where there is not enough memory to be had like this it is on a disk."""
    return Scratch(dir=MEMORY if _has_room() else None)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [])
        finally:
            os.close(process)


def _has_room() -> bool:
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= _ROOM
