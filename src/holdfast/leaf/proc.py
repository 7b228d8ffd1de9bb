"""What the kernel tells of processes in /proc: read so that what changes meanwhile is not missed."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

# counted from the state, the first field after "(comm)" in /proc/<pid>/stat
STATE, PARENT, SESSION, THREADS, START_TIME, SIZE = 0, 1, 3, 17, 19, 20
CODE_END, ENVIRONMENT_END = 24, 48

NOT_TO_BE_SEEN = (FileNotFoundError, ProcessLookupError, PermissionError)  # gone, or not ours to look at
LOOKS = 6  # at what changes while it is looked at

_LEFT = (b"Z", b"X")  # the state of a thread that only waits to be buried
_ALONE = 3  # links to the folder of threads, where there is one


def pids() -> Iterator[int]:
    """Of all processes, those among them that come while the others are looked at."""
    seen: set[int] = set()
    for _ in range(LOOKS):
        new = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - seen
        if not new:
            return
        yield from sorted(new)
        seen |= new


def fields_of(pid: int) -> list[bytes] | None:
    """What stands in its line of /proc/<pid>/stat, from its state on; None when it is gone."""
    fields = None
    with suppress(*NOT_TO_BE_SEEN):
        for _ in range(LOOKS):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if fields[THREADS] != b"0":  # else it is just being buried, or another of its threads takes its place
                return fields
        return fields
    return None


def is_dead(fields: list[bytes]) -> bool:
    """True of a process that only waits to be buried; not while any of its threads is at work."""
    return fields[STATE] in _LEFT and int(fields[THREADS]) <= 1


def places(pid: int) -> Iterator[str]:
    """Where /proc tells of a process: by its first thread; by the others, where that one left before they did."""
    yield f"/proc/{pid}"
    with suppress(OSError):
        if os.stat(f"/proc/{pid}/task").st_nlink > _ALONE:
            yield from (f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task"))


def handle_of(pid: int) -> int:
    """A descriptor that stands for this very process; `ProcessLookupError` when there is none."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # it is buried, and its number only a session's or a thread's
            raise ProcessLookupError(f"there is no process {pid}") from None
        raise
