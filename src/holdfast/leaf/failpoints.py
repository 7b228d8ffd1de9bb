"""Failpoints: places where a test kills a Holdfast process with a real SIGKILL, or makes its disk fail.

A disarmed failpoint is a call that returns at once. Even that is too slow for the journal, which asks `is_armed` once,
when it is created. Two variables arm a failpoint in one process; child processes do not inherit them.

    HOLDFAST_CRASH=NAME:PASS[:WHAT]     the failpoint, on which pass, and what dies: self, group or everyone;
                                        or the disk error: eio (once) or enospc (from then on)
    HOLDFAST_CRASH_FILE=FILE            an existing file; each pass of a failpoint appends a line to it

Processes that share the file share the count, so the failpoint kills only once. NAME `record` only counts.
"""

import errno
import fcntl
import os
import signal
from typing import NamedTuple

from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import RUN_MARK, mark_of, marked_processes
from holdfast.leaf.process.identity import ProcessIdentity, ProcessTable, kill_processes, own_identity

FAILPOINT_VARIABLE, FAILPOINT_FILE_VARIABLE = "HOLDFAST_CRASH", "HOLDFAST_CRASH_FILE"
RECORD_ONLY = "record"
KILL_TARGETS = ("self", "group", "everyone")
DISK_FAULTS = {"eio": errno.EIO, "enospc": errno.ENOSPC}


class Failpoint:
    """A named failpoint. Calling it counts a pass."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        assert name not in POINTS, f"two failpoints are called {name}"
        self.name = name
        POINTS[name] = self

    def __call__(self) -> None:
        if _armed is not None and _armed.is_due(self.name):
            _armed.trigger()

    def is_due(self) -> bool:
        """Count a pass without dying, for callers that act first and then call `trigger_failpoint`."""
        return _armed is not None and _armed.is_due(self.name)


POINTS: dict[str, Failpoint] = {}  # those of the imported modules


class FailpointPair(NamedTuple):
    """The failpoints before and after one step."""

    before: Failpoint
    after: Failpoint


def failpoint_pair(name: str) -> FailpointPair:
    return FailpointPair(Failpoint(f"{name}.before"), Failpoint(f"{name}.after"))


class ArmedFailpoint(NamedTuple):
    name: str
    pass_number: int
    action: str
    file: str

    def is_due(self, name: str) -> bool:
        """Count this pass in the shared file; True when it is the armed pass."""
        fd = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, f"{name} {os.getpid()}\n".encode())
            if name != self.name:
                return False
            passes = os.pread(fd, os.fstat(fd).st_size, 0).splitlines()
        finally:
            os.close(fd)
        passed = sum(line.split()[0] == name.encode() for line in passes)
        return passed >= self.pass_number if self.action == "enospc" else passed == self.pass_number

    def trigger(self) -> None:
        if self.action in DISK_FAULTS:
            raise OSError(DISK_FAULTS[self.action], os.strerror(DISK_FAULTS[self.action]))
        if self.action == "everyone":
            kill_processes(_descendants(own_identity()))
        if self.action == "group":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def __str__(self) -> str:
        if self.name == RECORD_ONLY:
            return f"passes of failpoints are recorded in {self.file}"
        at = f"at pass {self.pass_number} of {self.name}"
        return (
            f"the disk will fail with {self.action} {at}"
            if self.action in DISK_FAULTS
            else f"{self.action} will be killed {at}"
        )


_armed: ArmedFailpoint | None = None


def arm_failpoints() -> ArmedFailpoint | None:
    """Remove the variables from the environment and arm their failpoint. None unless both are set."""
    global _armed  # noqa: PLW0603 - a failpoint kills the whole process
    value, file = os.environ.pop(FAILPOINT_VARIABLE, None), os.environ.pop(FAILPOINT_FILE_VARIABLE, None)
    if value and file and os.path.isfile(file):
        _armed = _parse_variable(value, file)
    return _armed


def is_armed() -> bool:
    return _armed is not None


def trigger_failpoint() -> None:
    if _armed is not None:
        _armed.trigger()


def _parse_variable(value: str, file: str) -> ArmedFailpoint:
    name, _, rest = value.partition(":")
    pass_number, _, action = rest.partition(":")
    if name == RECORD_ONLY and not rest:
        return ArmedFailpoint(RECORD_ONLY, 0, "self", file)
    if not name or not pass_number.isdecimal() or (action or "self") not in (*KILL_TARGETS, *DISK_FAULTS):
        raise BadInput(
            f"{FAILPOINT_VARIABLE}={value} is not NAME:PASS[:{'|'.join((*KILL_TARGETS, *DISK_FAULTS))}] "
            f"and not {RECORD_ONLY}; unset it"
        )
    return ArmedFailpoint(name, int(pass_number), action or "self", file)


def _descendants(root: ProcessIdentity) -> set[ProcessIdentity]:
    """All descendants of a process, and every other process that works for the same runs."""
    below = ProcessTable().descendants(root)
    runs = {mark_of(process.pid, RUN_MARK) for process in below} - {None}
    found = {*below, *(process for run in runs for process in marked_processes(RUN_MARK, str(run)))}
    return found - {root}
