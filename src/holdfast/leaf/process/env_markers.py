"""Environment markers: variables that identify a process and its descendants after their parent died."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import (
    CODE_END,
    ENVIRONMENT_END,
    MAX_READS,
    PROCESS_NOT_VISIBLE,
    SIZE,
    THREADS,
    pids,
    proc_dirs,
    read_at_once,
    stat_fields,
)

RUN_MARK = "HOLDFAST_RUN"  # on every process that works for a run, and its descendants
CONVERSATION_MARK = "HOLDFAST_CONVERSATION"  # on the processes of one agent
SESSION_MARK, CALL_MARK = "HOLDFAST_BUILTIN_SESSION", "HOLDFAST_BUILTIN_CALL"  # on commands of the built-in agent

_EXEC_WAIT_S, _POLL_INTERVAL_S = 1.0, 0.0002  # an exec takes microseconds, but longer on a busy machine


def remove_own_marks() -> None:
    """Remove inherited markers, so that child processes do not count as those of the process that started us."""
    for mark in (RUN_MARK, CONVERSATION_MARK, SESSION_MARK, CALL_MARK):
        os.environ.pop(mark, None)


def mark_of(pid: int, variable: str) -> str | None:
    """The value of an environment variable that a process started with; None without it."""
    start = f"{variable}=".encode()
    inherited = _environment(pid) or []
    return next((os.fsdecode(entry[len(start) :]) for entry in inherited if entry.startswith(start)), None)


def marked_processes(variable: str, value: str, candidates: Iterable[int] | None = None) -> list[ProcessIdentity]:
    """Every process that inherited this environment variable. Finds a process tree whose root is gone."""
    return [*iter_marked_processes(variable, value, candidates)]


def iter_marked_processes(
    variable: str, value: str, candidates: Iterable[int] | None = None
) -> Iterator[ProcessIdentity]:
    """Like `marked_processes`, but yields each process at once: by the end of the scan it may have been replaced.

    The environment is checked again after the process is identified, because its pid may have been reused in between.
    """
    wanted = os.fsencode(f"{variable}={value}")
    for pid, inherited in _environments(pids() if candidates is None else candidates):
        if wanted in inherited:
            process = identify(pid)
            if process is not None and wanted in (_environment(pid) or ()):
                yield process


def is_unmarked_orphan(marks: Iterable[str], pid: int) -> bool:
    """Whether a child process was not started by us and inherited none of these environment variables.

    A process that we start is in our session or about to leave it; until its exec, it has our environment. The
    environment is read only once, because the exec may happen in between.
    """
    with suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            inherited, ours = _environment(pid), _environment(os.getpid())
            prefixes = tuple(f"{mark}=".encode() for mark in marks)
            return (
                inherited is not None
                and (inherited != ours or not ours)
                and not any(entry.startswith(prefixes) for entry in inherited)
            )
    return False


def _environment(pid: int) -> list[bytes] | None:
    """The environment that a process started with; None when it cannot be read."""
    return next((inherited for _, inherited in _environments([pid])), None)


def _environments(candidates: Iterable[int]) -> Iterator[tuple[int, list[bytes]]]:
    """The environment of each process, except those that are gone or not visible to us.

    During an exec a process has released its old environment and does not have the new one yet, although its parent was
    told that it runs. Such processes are read again after all others.
    """
    in_exec = []
    for pid in candidates:
        with suppress(*PROCESS_NOT_VISIBLE):
            inherited = _read_environment(pid)
            if inherited is not None:
                yield pid, inherited
            else:
                in_exec.append(pid)
    deadline = time.monotonic() + _EXEC_WAIT_S
    while in_exec and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL_S)
        for pid in [*in_exec]:
            with suppress(*PROCESS_NOT_VISIBLE):
                inherited = _read_environment(pid)
                if inherited is None:
                    continue
                yield pid, inherited
            in_exec.remove(pid)


def _read_environment(pid: int) -> list[bytes] | None:
    """The environment of a process; None during its exec. Raises one of `PROCESS_NOT_VISIBLE` when it is not visible.

    After the exec, the kernel has the addresses of code and environment. A process that shows no environment then has
    none or released it, unless the exec ended just now.
    """
    for _ in range(MAX_READS):
        exists = False
        for place in proc_dirs(pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                if content := read_at_once(f"{place}/environ"):
                    return content.split(b"\0")
                exists = True
        fields = stat_fields(pid) if exists else None
        if fields is None or (fields[SIZE] == b"0" and int(fields[THREADS]) <= 1):
            raise ProcessLookupError(f"there is no process {pid}, or it is a kernel thread")
        if fields[SIZE] != b"0" and b"0" in (fields[CODE_END], fields[ENVIRONMENT_END]):  # size 0: first thread exited
            return None
    return []
