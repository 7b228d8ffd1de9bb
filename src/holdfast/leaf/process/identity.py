"""Who a process is. A pid alone is reused; a pid with its start time and the boot's id is not."""

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import NamedTuple

from holdfast.leaf.process.proc import PARENT, SESSION, START_TIME, STATE, fields_of, handle_of, is_dead, pids, places

ROUNDS = 50  # of looking for those that are left, and ending them
_EMPTY_LOOKS = 3  # in a row, by which somebody who was found is known to be gone


class ProcessIdentity(NamedTuple):
    pid: int
    start_time: int
    boot_id: str

    def is_alive(self) -> bool:
        """True only when this very process runs now: not a later one with its pid, not one of an earlier boot."""
        return identify(self.pid) == self


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None when there is none by that pid (a zombie is none)."""
    fields = fields_of(pid)
    if fields is None or is_dead(fields):
        return None
    return _identity(pid, fields)


def _identity(pid: int, fields: list[bytes]) -> ProcessIdentity:
    return ProcessIdentity(pid, int(fields[START_TIME]), boot_id())


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
        fields = fields_of(pid)
        pid = int(fields[PARENT]) if fields is not None else 0
    return found


class Families:
    """Which processes came of which: all of them, looked at once."""

    def __init__(self) -> None:
        self._seen: set[ProcessIdentity] = set()
        self._children: dict[int, list[ProcessIdentity]] = {}
        for pid in pids():
            fields = fields_of(pid)
            if fields is not None and not is_dead(fields):
                process = _identity(pid, fields)
                self._seen.add(process)
                self._children.setdefault(int(fields[PARENT]), []).append(process)

    def children_of(self, parent: ProcessIdentity) -> list[ProcessIdentity]:
        """None of a process that was not there any more; and nobody is older than their parent."""
        found = self._children.get(parent.pid, []) if parent in self._seen else []
        return [child for child in found if child.start_time >= parent.start_time]

    def since(self, start_time: int) -> list[int]:
        """The pids of those that started then or later."""
        return [process.pid for process in self._seen if process.start_time >= start_time]

    def below(self, *roots: ProcessIdentity) -> list[ProcessIdentity]:
        """Their children, those of the children, and so on."""
        found: dict[ProcessIdentity, None] = {}
        waiting = [child for root in roots for child in self.children_of(root)]
        while waiting:
            process = waiting.pop()
            if process not in found:
                found[process] = None
                waiting += self.children_of(process)
        return [*found]


def orphaned_zombies(known: Collection[ProcessIdentity]) -> list[int]:
    """Dead children that came to us as orphans: those that are known, and any that we cannot have started ourselves.

    What we start is in our session, or leads its own.
    """
    if not _has_dead_children():
        return []
    return [
        pid
        for pid in pids()
        if (fields := fields_of(pid)) is not None
        and fields[STATE] == b"Z"
        and int(fields[PARENT]) == os.getpid()
        and (int(fields[SESSION]) not in (pid, os.getsid(0)) or _identity(pid, fields) in known)
    ]


def _has_dead_children() -> bool:
    with suppress(ChildProcessError):  # it has none at all
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def memory_of(pid: int) -> int:
    """Bytes of memory of a process, with its part of what it shares; 0 when it is gone, or not ours to look at."""
    for place in places(pid):
        with suppress(OSError), open(f"{place}/smaps_rollup", "rb") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    return 0


def at_work_in(folder: str, program: str) -> list[int]:
    """The processes of this program that stand in a folder, or below it."""
    return [pid for pid in pids() if _is_called(pid, program) and works_in(pid, folder)]


def is_hidden(program: str, owner: int) -> bool:
    """True when a user runs this program, and we may not see in which folder."""
    return any(_is_of(pid, owner) and _is_called(pid, program) and not _shows_its_folder(pid) for pid in pids())


def _is_called(pid: int, program: str) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip() == program
    return False


def _is_of(pid: int, owner: int) -> bool:
    with suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid == owner
    return False


def _shows_its_folder(pid: int) -> bool:
    try:
        os.readlink(f"/proc/{pid}/cwd")
    except PermissionError:
        return False
    except OSError:  # it is gone
        return True
    return True


def works_in(pid: int, folder: str) -> bool:
    """True when a process stands in a folder, or below it."""
    for place in places(pid):
        with suppress(OSError):
            return f"{os.readlink(f'{place}/cwd')}/".startswith(f"{os.path.realpath(folder)}/")
    return False


def end(processes: Iterable[ProcessIdentity], patience: float = 10.0) -> list[ProcessIdentity]:
    """SIGKILL these very processes, all before any is waited for, until they are gone. Returns those that are not.

    One handle is open at a time: there may be more of them than files may be open here.
    """
    told = []
    for process in processes:
        send(process, signal.SIGKILL)
        told.append(process)
    until = time.monotonic() + patience
    return [process for process in told if not _is_gone(process, until - time.monotonic())]


def send(process: ProcessIdentity, what: signal.Signals) -> None:
    """A signal to this very process, unless it is gone or not ours."""
    with _handle_on(process) as handle, suppress(ProcessLookupError, PermissionError):
        if handle is not None:
            signal.pidfd_send_signal(handle, what)


def end_all(look: Callable[[], Iterable[ProcessIdentity]]) -> list[ProcessIdentity]:
    """End whom each look finds, one by one as it finds them, until it finds nobody. Returns those that are not gone.

    Not us, nor those who called us: whoever looks may have been started by one of those that are looked for. Who is
    another process every moment is not there any more when the others were looked at, and may be missed by a look.
    """
    spared = lineage()
    found: list[ProcessIdentity] = []
    empty_looks = 1  # still to come
    for _ in range(ROUNDS):
        found.clear()
        if left := end(_noted(found, (process for process in look() if process.pid not in spared))):
            return left
        empty_looks = _EMPTY_LOOKS if found else empty_looks - 1
        if not empty_looks:
            return []
    return found


def _noted(found: list[ProcessIdentity], processes: Iterable[ProcessIdentity]) -> Iterator[ProcessIdentity]:
    for process in processes:
        found.append(process)
        yield process


def _is_gone(process: ProcessIdentity, patience: float) -> bool:
    with _handle_on(process) as handle:
        if handle is None:
            return True
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(max(0.0, patience) * 1000))


@contextmanager
def _handle_on(process: ProcessIdentity) -> Iterator[int | None]:
    """On this very process, whatever its pid becomes; None when it is gone."""
    with ExitStack() as stack:
        handle = None
        with suppress(ProcessLookupError):
            handle = handle_of(process.pid)
            stack.callback(os.close, handle)
        yield handle if process.is_alive() else None
