"""Who a process is. A pid alone is reused; a pid with its start time and the boot's id is not."""

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

_STARTTIME_FIELD = 19  # counted from the state field, the first after "(comm)" in /proc/<pid>/stat


class ProcessIdentity(NamedTuple):
    pid: int
    start_time: int
    boot_id: str

    def is_alive(self) -> bool:
        """True only when this very process runs now: not a later one with its pid, not one of an earlier boot."""
        return identify(self.pid) == self


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None when there is none by that pid (a zombie is none)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return ProcessIdentity(pid, int(fields[_STARTTIME_FIELD]), boot_id())


def myself() -> ProcessIdentity:
    me = identify(os.getpid())
    assert me is not None, "a running process is in /proc"
    return me


def marked(name: str, value: str) -> list[ProcessIdentity]:
    """Every process that inherited this environment variable: how a tree is found again when its root is gone."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if wanted in file.read().split(b"\0"):
                found.append(identify(pid))
    return [process for process in found if process is not None]


def end(processes: Iterable[ProcessIdentity], patience: float = 10.0) -> list[ProcessIdentity]:
    """SIGKILL these very processes, and wait until they are gone. Returns those that are not."""
    left = []
    for process in processes:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            if identify(process.pid) == process:  # the handle is this process's, whatever the pid becomes
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                if not select.select([handle], [], [], patience)[0]:
                    left.append(process)
        finally:
            os.close(handle)
    return left


def has_open(path: str) -> bool:
    """True when some process has this file open."""
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return False
    for pid in _pids():
        with suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), wanted):
                        return True
    return False


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())
