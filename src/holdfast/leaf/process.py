"""Who a process is. A pid alone is reused; a pid with its start time and the boot's id is not."""

import os
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
