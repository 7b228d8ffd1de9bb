"""What the kernel tells of processes in /proc: read so that what changes meanwhile is not missed."""

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress

# counted from the state, the first field after "(comm)" in /proc/<pid>/stat
STATE, PARENT, SESSION, FLAGS, THREADS, START_TIME, SIZE = 0, 1, 3, 6, 17, 19, 20
CODE_END, ENVIRONMENT_END = 24, 48

NOT_TO_BE_SEEN = (FileNotFoundError, ProcessLookupError, PermissionError)  # gone, or not ours to look at
LOOKS = 6  # at what changes while it is looked at

_LEAVING = 0x4 | 0x400  # among the flags: it is on its way out, or a signal sends it there
_LEFT = (b"Z", b"X")  # the state of a thread that only waits to be buried
_ALONE = 3  # links to the folder of threads, where there is one
_A_LINE = 4 * 1024  # bytes, and more than /proc/<pid>/stat has
_USUAL, _LONGEST = 64 * 1024, 8 * 1024 * 1024  # bytes of an environment; the kernel takes none that is longer


def pids(since: int = 0) -> Iterator[int]:
    """Of all processes that started then or later, those among them that come while the others are looked at."""
    seen: set[int] = set()
    for _ in range(LOOKS):
        new = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - seen
        if not new:
            return
        yield from (pid for pid in sorted(new) if not since or _started_since(since, pid))
        seen |= new


def _started_since(since: int, pid: int) -> bool:
    fields = fields_of(pid)
    return fields is not None and int(fields[START_TIME]) >= since


def fields_of(pid: int) -> list[bytes] | None:
    """What stands in its line of /proc/<pid>/stat, from its state on; None when it is gone."""
    fields = None
    with suppress(*NOT_TO_BE_SEEN):
        for _ in range(LOOKS):
            fields = read_at_once(f"/proc/{pid}/stat", _A_LINE).rpartition(b")")[2].split()
            if fields[THREADS] != b"0":  # else it is just being buried, or another of its threads takes its place
                return fields
        return fields
    return None


def read_at_once(path: str, most: int = _USUAL) -> bytes:
    """By one call: between two, a process may become another program, and the rest of the old would be missing."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, most)
    finally:
        os.close(fd)
    return content if len(content) < most or most == _LONGEST else read_at_once(path, _LONGEST)


def is_dead(fields: list[bytes]) -> bool:
    """True of a process that only waits to be buried; not while any of its threads is at work."""
    return fields[STATE] in _LEFT and int(fields[THREADS]) <= 1


def is_dying(pid: int) -> bool:
    """True of a process that was killed, or is on its way out: what it holds, it holds for a moment still.

    Or of one that lives on without its first thread.
    """
    with suppress(*NOT_TO_BE_SEEN):
        pending = re.findall(rb"^(?:Sig|Shd)Pnd:\s*(\w+)", read_at_once(f"/proc/{pid}/status"), re.MULTILINE)
        fields = fields_of(pid)
        was_killed = any(int(signals, 16) & 1 << signal.SIGKILL - 1 for signals in pending)
        return was_killed or (fields is not None and bool(int(fields[FLAGS]) & _LEAVING))
    return False


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
