"""Process identity: a pid is reused, a pid with its start time and boot id is not."""

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import NamedTuple

from holdfast.leaf.process.proc import (
    PARENT,
    SESSION,
    START_TIME,
    STATE,
    is_dead,
    open_pidfd,
    pids,
    proc_dirs,
    read_at_once,
    stat_fields,
)

MAX_KILL_ROUNDS = 50  # scans for remaining processes
_NAME_BYTES = 1024  # longer than any /proc/<pid>/comm
_EMPTY_SCANS = 3  # in a row, before the processes found earlier count as gone


class ProcessIdentity(NamedTuple):
    pid: int
    start_time: int
    boot_id: str

    def is_alive(self) -> bool:
        """Whether exactly this process runs now, not a later one with its pid or one of another boot."""
        return identify(self.pid) == self


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the running process with this pid; None when there is none or it is a zombie."""
    fields = stat_fields(pid)
    if fields is None or is_dead(fields):
        return None
    return _identity(pid, fields)


def _identity(pid: int, fields: list[bytes]) -> ProcessIdentity:
    return ProcessIdentity(pid, int(fields[START_TIME]), boot_id())


def own_identity() -> ProcessIdentity:
    me = identify(os.getpid())
    assert me is not None, "a running process is in /proc"
    return me


def ancestor_pids() -> set[int]:
    """The pids of this process and all its ancestors."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = stat_fields(pid)
        pid = int(fields[PARENT]) if fields is not None else 0
    return found


class ProcessTable:
    """A snapshot of all processes and their children.

    With `since`, only those that started then or later, and this process: enough for what a process of ours left.
    """

    def __init__(self, since: int = 0) -> None:
        self._seen: set[ProcessIdentity] = {own_identity()}
        self._children: dict[int, list[ProcessIdentity]] = {}
        for pid in pids(since):
            fields = stat_fields(pid)
            if fields is not None and not is_dead(fields):
                process = _identity(pid, fields)
                self._seen.add(process)
                self._children.setdefault(int(fields[PARENT]), []).append(process)

    def children_of(self, parent: ProcessIdentity) -> list[ProcessIdentity]:
        """The children of a process; empty when it was gone. A child with an earlier start time is not its own."""
        found = self._children.get(parent.pid, []) if parent in self._seen else []
        return [child for child in found if child.start_time >= parent.start_time]

    def pids_since(self, start_time: int) -> list[int]:
        """The pids of processes that started at this time or later."""
        return [process.pid for process in self._seen if process.start_time >= start_time]

    def descendants(self, *roots: ProcessIdentity) -> list[ProcessIdentity]:
        """All descendants of these processes."""
        found: dict[ProcessIdentity, None] = {}
        waiting = [child for root in roots for child in self.children_of(root)]
        while waiting:
            process = waiting.pop()
            if process not in found:
                found[process] = None
                waiting += self.children_of(process)
        return [*found]


def orphaned_zombies(known: Collection[ProcessIdentity]) -> list[int]:
    """Dead children that we inherited as orphans: the known ones, and those that we cannot have started.

    A process that we start is in our session or leads its own.
    """
    if not _has_dead_children():
        return []
    return [
        pid
        for pid in pids(own_identity().start_time)
        if (fields := stat_fields(pid)) is not None
        and fields[STATE] == b"Z"
        and int(fields[PARENT]) == os.getpid()
        and (int(fields[SESSION]) not in (pid, os.getsid(0)) or _identity(pid, fields) in known)
    ]


def _has_dead_children() -> bool:
    with suppress(ChildProcessError):  # no children at all
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def memory_bytes(pid: int) -> int:
    """The memory of a process, with its share of shared pages; 0 when it is gone or not visible to us."""
    for proc_dir in proc_dirs(pid):
        with suppress(OSError), open(f"{proc_dir}/smaps_rollup", "rb") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    return 0


def pids_working_in(program: str, *folders: str) -> list[int]:
    """The processes of this program whose working directory is in one of these folders. Scans once for all folders."""
    running = [pid for pid in pids() if _runs_program(pid, program)]
    prefixes = tuple(_prefix_of(folder) for folder in folders) if running else ()
    return [pid for pid in running if _is_working_below(pid, prefixes)]


def has_hidden_process(program: str, owner: int) -> bool:
    """Whether a user runs this program in a folder that we may not see."""
    return any(_is_owned_by(pid, owner) and _runs_program(pid, program) and not _shows_its_cwd(pid) for pid in pids())


def _runs_program(pid: int, program: str) -> bool:
    with suppress(OSError):
        return read_at_once(f"/proc/{pid}/comm", _NAME_BYTES).strip() == os.fsencode(program)
    return False


def _is_owned_by(pid: int, owner: int) -> bool:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid == owner
    return False


def _shows_its_cwd(pid: int) -> bool:
    try:
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return False
    except OSError:  # the process is gone
        return True
    return True


def is_working_in(pid: int, folder: str) -> bool:
    """Whether the working directory of a process is a folder or below it."""
    return _is_working_below(pid, (_prefix_of(folder),))


def _prefix_of(folder: str) -> str:
    return f"{os.path.realpath(folder)}/"


def _is_working_below(pid: int, prefixes: tuple[str, ...]) -> bool:
    for proc_dir in proc_dirs(pid):
        with suppress(OSError):
            return f"{os.readlink(f'{proc_dir}/cwd')}/".startswith(prefixes)
    return False


def kill_processes(processes: Iterable[ProcessIdentity], timeout_s: float = 10.0) -> list[ProcessIdentity]:
    """SIGKILL all of these processes, then wait until they exit. Returns those that are still alive.

    One pidfd is open at a time: there may be more processes than the limit of open files.
    """
    signalled = []
    for process in processes:
        send_signal(process, signal.SIGKILL)
        signalled.append(process)
    deadline = time.monotonic() + timeout_s
    return [process for process in signalled if not _has_exited(process, deadline - time.monotonic())]


def send_signal(process: ProcessIdentity, signal_number: signal.Signals) -> None:
    """Signal exactly this process, unless it is gone or not ours."""
    with _open_pidfd(process) as pidfd, suppress(ProcessLookupError, PermissionError):
        if pidfd is not None:
            signal.pidfd_send_signal(pidfd, signal_number)


def kill_until_none_left(find: Callable[[], Iterable[ProcessIdentity]]) -> list[ProcessIdentity]:
    """Scan and kill each process as it is found, until a scan finds none. Returns those that are still alive.

    Spares this process and its ancestors: one of the processes to kill may have started us. A process that forks and
    exits all the time can slip through one scan, so after a find several scans in a row must be empty.
    """
    spared = ancestor_pids()
    found: list[ProcessIdentity] = []
    empty_scans_left = 1
    for _ in range(MAX_KILL_ROUNDS):
        found.clear()
        if left := kill_processes(_collect_each(found, (process for process in find() if process.pid not in spared))):
            return left
        empty_scans_left = _EMPTY_SCANS if found else empty_scans_left - 1
        if not empty_scans_left:
            return []
    return found


def _collect_each(found: list[ProcessIdentity], processes: Iterable[ProcessIdentity]) -> Iterator[ProcessIdentity]:
    for process in processes:
        found.append(process)
        yield process


def _has_exited(process: ProcessIdentity, timeout_s: float) -> bool:
    with _open_pidfd(process) as pidfd:
        if pidfd is None:
            return True
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_s) * 1000))


@contextmanager
def _open_pidfd(process: ProcessIdentity) -> Iterator[int | None]:
    """A pidfd of exactly this process, even if its pid is reused; None when it is gone."""
    with ExitStack() as stack:
        pidfd = None
        with suppress(ProcessLookupError):
            pidfd = open_pidfd(process.pid)
            stack.callback(os.close, pidfd)
        yield pidfd if process.is_alive() else None
