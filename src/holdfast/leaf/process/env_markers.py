"""Marks: variables in the environment of a process by which it, and whatever comes of it, is found again."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import (
    CODE_END,
    ENVIRONMENT_END,
    LOOKS,
    NOT_TO_BE_SEEN,
    SIZE,
    THREADS,
    fields_of,
    pids,
    places,
    read_at_once,
)

RUN_MARK = "HOLDFAST_RUN"  # in the environment of every process that works for a run, and of all its children
CONVERSATION_MARK = "HOLDFAST_CONVERSATION"  # the same, for those of one agent
SESSION_MARK, CALL_MARK = "HOLDFAST_BUILTIN_SESSION", "HOLDFAST_BUILTIN_CALL"  # of what our own agent's shell runs

_MOMENT, _BLINK = 1.0, 0.0002  # seconds: for what takes microseconds, on a machine with much else to do


def drop_marks() -> None:
    """For who has processes of its own to tell apart: what it starts from now on is not of who started it."""
    for mark in (RUN_MARK, CONVERSATION_MARK, SESSION_MARK, CALL_MARK):
        os.environ.pop(mark, None)


def mark_of(pid: int, name: str) -> str | None:
    """What a process inherited as the value of an environment variable."""
    start = f"{name}=".encode()
    inherited = _environment(pid) or []
    return next((os.fsdecode(entry[len(start) :]) for entry in inherited if entry.startswith(start)), None)


def marked(name: str, value: str, among: Iterable[int] | None = None) -> list[ProcessIdentity]:
    """Every process that inherited this environment variable: how a tree is found again when its root is gone."""
    return [*each_marked(name, value, among)]


def each_marked(name: str, value: str, among: Iterable[int] | None = None) -> Iterator[ProcessIdentity]:
    """The same, each as soon as it is found: it may be gone, and another in its place, when all are.

    Who was found is looked at again when it was identified: its pid may have been given to another in between.
    """
    wanted = os.fsencode(f"{name}={value}")
    for pid, inherited in _environments(pids() if among is None else among):
        if wanted in inherited:
            process = identify(pid)
            if process is not None and wanted in (_environment(pid) or ()):
                yield process


def is_orphan_without(marks: Iterable[str], pid: int) -> bool:
    """True of a child that we did not start, and that inherited none of these environment variables.

    What we start is in our session, or about to leave it: until it becomes its program, it has our very environment.
    That is read once, because it may become it meanwhile.
    """
    with suppress(OSError):
        if os.getsid(pid) != os.getsid(0):
            inherited, ours = _environment(pid), _environment(os.getpid())
            started = tuple(f"{mark}=".encode() for mark in marks)
            return (
                inherited is not None
                and (inherited != ours or not ours)
                and not any(e.startswith(started) for e in inherited)
            )
    return False


def _environment(pid: int) -> list[bytes] | None:
    """What a process inherited; None when that cannot be told."""
    return next((inherited for _, inherited in _environments([pid])), None)


def _environments(wanted: Iterable[int]) -> Iterator[tuple[int, list[bytes]]]:
    """What each of them inherited, unless it is gone, or not ours to look at.

    One that is just becoming its program has let go of the old environment and not taken the new one yet, though
    whoever started it was told that it runs. Those are looked at again when all others were.
    """
    becoming = []
    for pid in wanted:
        with suppress(*NOT_TO_BE_SEEN):
            inherited = _inherited(pid)
            if inherited is not None:
                yield pid, inherited
            else:
                becoming.append(pid)
    until = time.monotonic() + _MOMENT
    while becoming and time.monotonic() < until:
        time.sleep(_BLINK)
        for pid in [*becoming]:
            with suppress(*NOT_TO_BE_SEEN):
                inherited = _inherited(pid)
                if inherited is None:
                    continue
                yield pid, inherited
            becoming.remove(pid)


def _inherited(pid: int) -> list[bytes] | None:
    """None of one that is just becoming its program. One of `NOT_TO_BE_SEEN` is raised where that is so.

    The kernel has noted where code and environment are when it has become that. Who shows nothing then has nothing to
    show, or let go of it, unless it came to it just now.
    """
    for _ in range(LOOKS):
        is_there = False
        for place in places(pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                if content := read_at_once(f"{place}/environ"):
                    return content.split(b"\0")
                is_there = True
        fields = fields_of(pid) if is_there else None
        if fields is None or (fields[SIZE] == b"0" and int(fields[THREADS]) <= 1):
            raise ProcessLookupError(f"there is no process {pid}, or it is the kernel's own")
        if fields[SIZE] != b"0" and b"0" in (fields[CODE_END], fields[ENVIRONMENT_END]):  # else its first thread left
            return None
    return []
