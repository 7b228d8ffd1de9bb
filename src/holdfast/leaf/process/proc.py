"""Read /proc in a way that tolerates processes which change meanwhile."""

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress

# Indexes of fields in /proc/<pid>/stat, counted from the state, the first field after "(comm)".
STATE, PARENT, SESSION, FLAGS, THREADS, START_TIME, SIZE = 0, 1, 3, 6, 17, 19, 20
CODE_END, ENVIRONMENT_END = 24, 48

PROCESS_NOT_VISIBLE = (FileNotFoundError, ProcessLookupError, PermissionError)  # gone, or another user's
MAX_READS = 6  # of data that changes while it is read

_EXITING_FLAGS = 0x4 | 0x400  # PF_EXITING, PF_SIGNALED
_DEAD_STATES = (b"Z", b"X")  # exited, and not reaped yet
_SINGLE_THREAD_LINKS = 3  # link count of /proc/<pid>/task for one thread
_STAT_LINE_BYTES = 4 * 1024  # longer than any /proc/<pid>/stat
_NO_INODE = 1  # listed when the kernel could not look it up
_MAX_START_TIMES = 100_000
_USUAL_ENVIRONMENT_BYTES = 64 * 1024
_MAX_ENVIRONMENT_BYTES = 8 * 1024 * 1024  # the kernel accepts no longer environment


def pids(since: int = 0) -> Iterator[int]:
    """The pids of all processes that started at `since` or later, including those that appear during the scan."""
    seen: set[int] = set()
    for _ in range(MAX_READS):
        listed = _list_processes()
        new = sorted(listed.keys() - seen)
        if not new:
            return
        yield from (pid for pid in new if not since or _started_since(since, pid, listed[pid]))
        seen.update(new)


def _list_processes() -> dict[int, int]:
    """Every pid with the inode number of its folder, which differs from that of an earlier process with its pid."""
    with os.scandir("/proc") as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdecimal()}


_start_times: dict[int, tuple[int, int]] = {}  # by pid, with the inode number of the process that started then


def _started_since(since: int, pid: int, inode: int) -> bool:
    """A process is read once: most of a machine's are older than what is looked for, and every scan lists them all."""
    known_inode, start_time = _start_times.get(pid, (0, 0))
    if known_inode == inode > _NO_INODE:
        return start_time >= since
    fields = stat_fields(pid)
    if fields is None:
        return False
    if len(_start_times) > _MAX_START_TIMES:
        _start_times.clear()
    _start_times[pid] = (inode, int(fields[START_TIME]))
    return int(fields[START_TIME]) >= since


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/<pid>/stat from the state on; None when the process is gone."""
    fields = None
    try:
        for _ in range(MAX_READS):
            fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                fields = os.read(fd, _STAT_LINE_BYTES).rpartition(b")")[2].split()
            finally:
                os.close(fd)
            if fields[THREADS] != b"0":  # 0: it is being reaped, or an exec in another thread replaces it
                return fields
    except PROCESS_NOT_VISIBLE:
        return None
    return fields


def read_at_once(path: str, max_bytes: int = _USUAL_ENVIRONMENT_BYTES) -> bytes:
    """Read a file with a single call: between two, an exec could replace the rest of the content."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, max_bytes)
    finally:
        os.close(fd)
    return (
        content
        if len(content) < max_bytes or max_bytes == _MAX_ENVIRONMENT_BYTES
        else read_at_once(path, _MAX_ENVIRONMENT_BYTES)
    )


def is_dead(fields: list[bytes]) -> bool:
    """Whether a process has exited and is not reaped yet. False while any of its threads runs."""
    return fields[STATE] in _DEAD_STATES and int(fields[THREADS]) <= 1


def is_dying(pid: int) -> bool:
    """Whether a process was killed or is exiting, and will release what it holds in a moment.

    Also True for a process that continues after its first thread exited.
    """
    with suppress(*PROCESS_NOT_VISIBLE):
        pending = re.findall(rb"^(?:Sig|Shd)Pnd:\s*(\w+)", read_at_once(f"/proc/{pid}/status"), re.MULTILINE)
        fields = stat_fields(pid)
        was_killed = any(int(signals, 16) & 1 << signal.SIGKILL - 1 for signals in pending)
        return was_killed or (fields is not None and bool(int(fields[FLAGS]) & _EXITING_FLAGS))
    return False


def proc_dirs(pid: int) -> Iterator[str]:
    """The /proc folders of a process: that of its first thread, and those of the others in case the first exited."""
    yield f"/proc/{pid}"
    with suppress(OSError):
        if os.stat(f"/proc/{pid}/task").st_nlink > _SINGLE_THREAD_LINKS:
            yield from (f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task"))


def open_pidfd(pid: int) -> int:
    """A pidfd of the process with this pid; `ProcessLookupError` when there is none."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # reaped; the number is now only a session's or a thread's
            raise ProcessLookupError(f"there is no process {pid}") from None
        raise
