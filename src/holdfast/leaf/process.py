"""Who a process is. A pid alone is reused; a pid with its start time and the boot's id is not."""

import fcntl
import os
import select
import signal
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

RUN_MARK = "HOLDFAST_RUN"  # in the environment of every process that works for a run, and of all its children
CONVERSATION_MARK = "HOLDFAST_CONVERSATION"  # the same, for those of one agent

# counted from the state, the first field after "(comm)" in /proc/<pid>/stat
_PARENT_FIELD, _SESSION_FIELD, _STARTTIME_FIELD, _SIZE_FIELD, _CODE_END_FIELD = 1, 3, 19, 20, 24
_ENVIRONMENT_START_FIELD, _ENVIRONMENT_END_FIELD = 47, 48

_DEAD = (b"Z", b"X")  # its state, when it only waits to be buried

# Beyond what node takes for its own, and no number that scripts write by hand: `flock -n 200 ... 200>lock` would
# close it, and bash has 255 for itself.
_HIGH = 317

_MOMENT, _BLINK = 1.0, 0.0002  # seconds: for what takes microseconds, on a machine with much else to do
_LONGEST = 8 * 1024 * 1024  # bytes of an environment; the kernel takes none that is longer


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
    fields = _fields(pid)
    if fields is None or fields[0] in _DEAD:
        return None
    return ProcessIdentity(pid, int(fields[_STARTTIME_FIELD]), boot_id())


def myself() -> ProcessIdentity:
    me = identify(os.getpid())
    assert me is not None, "a running process is in /proc"
    return me


def lineage() -> set[int]:
    """This process, its parent, its parent's parent, and so on."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = _fields(pid)
        pid = int(fields[_PARENT_FIELD]) if fields is not None else 0
    return found


def mark_of(pid: int, name: str) -> str | None:
    """What a process inherited as the value of an environment variable."""
    start = f"{name}=".encode()
    inherited = _environment(pid, time.monotonic() + _MOMENT) or []
    return next((os.fsdecode(entry[len(start) :]) for entry in inherited if entry.startswith(start)), None)


def marked(name: str, value: str) -> list[ProcessIdentity]:
    """Every process that inherited this environment variable: how a tree is found again when its root is gone."""
    wanted, until = f"{name}={value}".encode(), time.monotonic() + _MOMENT
    found = (identify(pid) for pid in _pids() if wanted in (_environment(pid, until) or []))
    return [process for process in found if process is not None]


def _environment(pid: int, until: float) -> list[bytes] | None:
    """What a process inherited; None when that cannot be told: it is not ours to look at, or not there in time.

    One that is just becoming its program has let go of the old environment and not taken the new one yet, though
    whoever started it was told that it runs. It is waited for.
    """
    with suppress(OSError):
        while not (content := _environment_now(pid)):
            if _has_none(pid):
                return []
            if time.monotonic() > until:
                return None
            time.sleep(_BLINK)
        return content.split(b"\0")
    return None


def _environment_now(pid: int) -> bytes:
    """By one call: between two, a process may become another program, and the rest of the old would be missing."""
    fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST)
    finally:
        os.close(fd)


def _has_none(pid: int) -> bool:
    """True of the dead and of the kernel's own, which have no memory, and of a program that was given nothing.

    The kernel notes where the code is when it has noted where the environment is.
    """
    fields = _fields(pid)
    if fields is None or fields[_SIZE_FIELD] == b"0":
        return True
    return fields[_CODE_END_FIELD] != b"0" and fields[_ENVIRONMENT_START_FIELD] == fields[_ENVIRONMENT_END_FIELD]


class Families:
    """Which processes came of which: all of them, looked at once."""

    def __init__(self) -> None:
        self._seen: set[ProcessIdentity] = set()
        self._children: dict[int, list[ProcessIdentity]] = {}
        boot = boot_id()
        for pid in _pids():
            fields = _fields(pid)
            if fields is not None and fields[0] not in _DEAD:
                process = ProcessIdentity(pid, int(fields[_STARTTIME_FIELD]), boot)
                self._seen.add(process)
                self._children.setdefault(int(fields[_PARENT_FIELD]), []).append(process)

    def children_of(self, parent: ProcessIdentity) -> list[ProcessIdentity]:
        """None of a process that was not there any more; and nobody is older than their parent."""
        found = self._children.get(parent.pid, []) if parent in self._seen else []
        return [child for child in found if child.start_time >= parent.start_time]

    def below(self, root: ProcessIdentity) -> list[ProcessIdentity]:
        """Its children, theirs, and so on."""
        found: dict[ProcessIdentity, None] = {}
        waiting = self.children_of(root)
        while waiting:
            process = waiting.pop()
            if process not in found:
                found[process] = None
                waiting += self.children_of(process)
        return [*found]


def memory_of(pid: int) -> int:
    """Bytes of memory of a process, with its part of what it shares; 0 when it is gone, or not ours to look at."""
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    return 0


def orphaned_zombies() -> list[int]:
    """Dead children that came to us as orphans: what we start ourselves is in our session, or leads its own."""
    return [
        pid
        for pid in _pids()
        if (fields := _fields(pid)) is not None
        and fields[0] == b"Z"
        and int(fields[_PARENT_FIELD]) == os.getpid()
        and int(fields[_SESSION_FIELD]) not in (pid, os.getsid(0))
    ]


def is_orphan_without(marks: Iterable[str], pid: int) -> bool:
    """True of a child that we did not start, and that inherited none of these environment variables.

    What we start is in our session, or about to leave it: until it becomes its program, it has our very environment.
    That is read once, because it may become it meanwhile.
    """
    with suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            until = time.monotonic() + _MOMENT
            inherited, ours = _environment(pid, until), _environment(os.getpid(), until)
            started = tuple(f"{mark}=".encode() for mark in marks)
            return (
                inherited is not None
                and (inherited != ours or not ours)
                and not any(e.startswith(started) for e in inherited)
            )
    return False


def end(processes: Iterable[ProcessIdentity], patience: float = 10.0) -> list[ProcessIdentity]:
    """SIGKILL these very processes, all before any is waited for, until they are gone. Returns those that are not."""
    handles: dict[int, ProcessIdentity] = {}
    try:
        for process in processes:
            with suppress(ProcessLookupError, PermissionError):
                handle = os.pidfd_open(process.pid)
                handles[handle] = process
                if identify(process.pid) == process:  # the handle is this process's, whatever the pid becomes
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                else:
                    os.close(handle)
                    del handles[handle]
        until = time.monotonic() + patience
        return [process for handle, process in handles.items() if not _is_gone(handle, until - time.monotonic())]
    finally:
        for handle in handles:
            os.close(handle)


def _is_gone(handle: int, patience: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(0.0, patience) * 1000))


def has_open(path: str) -> bool:
    """True when some process has this file open."""
    return next(_having_open(path), None) is not None


@contextmanager
def tethered(path: str | None, mark: str = "") -> Iterator[tuple[int, ...]]:
    """The file as a descriptor for a child to inherit, by which `holding` finds it; nothing when there is no file."""
    if path is None:
        yield ()
        return
    fd = tether(path, mark)
    try:
        yield (fd,)
    finally:
        os.close(fd)


def tether(path: str, mark: str = "") -> int:
    """Open the file as no reader of it does, and at the mark's own place in it: children share both.

    Its number is high, because some agents let nothing through to their children that looks like their own.
    """
    with ExitStack() as stack:
        low = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, low)
        os.lseek(low, _place_of(mark), os.SEEK_SET)
        try:
            return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        except OSError:  # so many may not be open here
            return os.dup(low)


def holding(path: str, mark: str | None = None, since: int = 0) -> list[ProcessIdentity]:
    """Every process that holds this tether, be it only because it inherited it; only those of a mark, if one is given.

    Whoever reads the file, as a user's `tail`, does not hold it. Who started before `since`, the start time of the
    first that was given it, is not looked at.
    """
    place = None if mark is None else _place_of(mark)
    found = map(identify, _having_open(path, lambda pid, fd: _is_tether(pid, fd, place), since))
    return [process for process in found if process is not None]


def _place_of(mark: str) -> int:
    return zlib.crc32(os.fsencode(mark)) >> 1


def _is_tether(pid: int, fd: str, place: int | None) -> bool:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as file:
        told = dict(line.split(":", 1) for line in file if line.startswith(("pos:", "flags:")))
    return int(told["flags"], 8) & os.O_ACCMODE == os.O_WRONLY and place in (None, int(told["pos"]))


def _having_open(path: str, is_meant: Callable[[int, str], bool] = lambda *_: True, since: int = 0) -> Iterator[int]:
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return
    for pid in _pids():
        if since and not _started_since(pid, since):
            continue
        if any(_is_open_as(pid, fd, wanted, is_meant) for fd in _descriptors(pid)):
            yield pid


def _started_since(pid: int, since: int) -> bool:
    fields = _fields(pid)
    return fields is not None and int(fields[_STARTTIME_FIELD]) >= since


def _descriptors(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def _is_open_as(pid: int, fd: str, wanted: os.stat_result, is_meant: Callable[[int, str], bool]) -> bool:
    """The file itself is looked at last: it may be another's, on a server that does not answer any more."""
    try:
        return is_meant(pid, fd) and os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), wanted)
    except OSError:  # it was closed meanwhile; the others are still there
        return False


def at_work_in(folder: str, program: str) -> list[int]:
    """The processes of this program that stand in a folder, or below it."""
    found = []
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            if file.read().strip() == program and works_in(pid, folder):
                found.append(pid)
    return found


def works_in(pid: int, folder: str) -> bool:
    """True when a process stands in a folder, or below it."""
    try:
        return f"{os.readlink(f'/proc/{pid}/cwd')}/".startswith(f"{os.path.realpath(folder)}/")
    except OSError:
        return False


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _fields(pid: int) -> list[bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it is gone, or not ours to know of
        return None
