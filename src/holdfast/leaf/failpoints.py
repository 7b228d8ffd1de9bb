"""Places at which a test has a process of ours killed, by a real SIGKILL, or its disk fail: on a given pass.

A point that is off is a call that returns at once; the journal, for which even that is too much, asks `is_on` when
it is made. Two variables turn it on, for one process: what it starts does not inherit them.

    HOLDFAST_CRASH=NAME:PASS[:WHAT]     the point, which pass of it, and who dies: self, group or everyone;
                                        or what the disk answers: eio, once, or enospc, from then on
    HOLDFAST_CRASH_FILE=FILE            a file that is there: each pass of a point becomes a line of it

Processes that share the file count together, so that nobody dies twice. `record` in place of a name kills nobody.
"""

import errno
import fcntl
import os
import signal
from typing import NamedTuple

from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import RUN_MARK, mark_of, marked
from holdfast.leaf.process.identity import Families, ProcessIdentity, end, myself

WHAT, FILE = "HOLDFAST_CRASH", "HOLDFAST_CRASH_FILE"
RECORD = "record"
WHOM = ("self", "group", "everyone")
FAULTS = {"eio": errno.EIO, "enospc": errno.ENOSPC}


class Point:
    """A place by its name. Calling it is passing it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        assert name not in POINTS, f"two points are called {name}"
        self.name = name
        POINTS[name] = self

    def __call__(self) -> None:
        if _doom is not None and _doom.has_come(self.name):
            _doom.strike()

    def has_come(self) -> bool:
        """For who has something to do before it dies, and then calls `strike`."""
        return _doom is not None and _doom.has_come(self.name)


POINTS: dict[str, Point] = {}  # all there are in what was imported


class Around(NamedTuple):
    """The two sides of something that is done."""

    before: Point
    after: Point


def around(name: str) -> Around:
    return Around(Point(f"{name}.before"), Point(f"{name}.after"))


class Doom(NamedTuple):
    name: str
    ordinal: int
    whom: str
    file: str

    def has_come(self, name: str) -> bool:
        """Count this pass, together with those of others who use the file."""
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
        return passed >= self.ordinal if self.whom == "enospc" else passed == self.ordinal

    def strike(self) -> None:
        if self.whom in FAULTS:
            raise OSError(FAULTS[self.whom], os.strerror(FAULTS[self.whom]))
        if self.whom == "everyone":
            end(_below(myself()))
        if self.whom == "group":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def __str__(self) -> str:
        if self.name == RECORD:
            return f"passes of crash points are recorded in {self.file}"
        at = f"at pass {self.ordinal} of {self.name}"
        return f"the disk will answer {self.whom} {at}" if self.whom in FAULTS else f"{self.whom} will be killed {at}"


_doom: Doom | None = None


def arm() -> Doom | None:
    """Take the variables out of the environment, and do as they say. None when they are not both there."""
    global _doom  # noqa: PLW0603 - of the whole process, as its death is
    what, file = os.environ.pop(WHAT, None), os.environ.pop(FILE, None)
    if what and file and os.path.isfile(file):
        _doom = _read(what, file)
    return _doom


def is_on() -> bool:
    return _doom is not None


def strike() -> None:
    if _doom is not None:
        _doom.strike()


def _read(what: str, file: str) -> Doom:
    name, _, rest = what.partition(":")
    ordinal, _, whom = rest.partition(":")
    if name == RECORD and not rest:
        return Doom(RECORD, 0, "self", file)
    if not name or not ordinal.isdecimal() or (whom or "self") not in (*WHOM, *FAULTS):
        raise BadInput(f"{WHAT}={what} is not NAME:PASS[:{'|'.join((*WHOM, *FAULTS))}] and not {RECORD}; unset it")
    return Doom(name, int(ordinal), whom or "self", file)


def _below(root: ProcessIdentity) -> set[ProcessIdentity]:
    """All that came of a process, and whatever else works for the same runs."""
    below = Families().below(root)
    runs = {mark_of(process.pid, RUN_MARK) for process in below} - {None}
    found = {*below, *(process for run in runs for process in marked(RUN_MARK, str(run)))}
    return found - {root}
