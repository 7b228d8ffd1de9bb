"""Processes by their pids: who is whose child, and one with a pid of one's choice."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CLONE3 = 435
_FIELDS = 11  # of struct clone_args, each of 64 bits


@contextmanager
def with_pid(pid: int) -> Iterator[None]:
    """A stranger that has this pid and does nothing, for as long as the context lasts. `OSError` when it cannot be.

    It is what a machine gives to somebody else sooner or later: not at once. Who had it before is known by the tick of
    the clock at which it started.
    """
    time.sleep(2 / os.sysconf("SC_CLK_TCK"))
    wanted, arguments = (ctypes.c_int * 1)(pid), (ctypes.c_uint64 * _FIELDS)()
    arguments[4] = signal.SIGCHLD
    arguments[8], arguments[9] = ctypes.addressof(wanted), 1
    libc = ctypes.CDLL(None, use_errno=True)
    child = libc.syscall(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if child == 0:
        os.setsid()
        os.execv("/bin/sleep", ["sleep", "1000"])
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        assert child == pid
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0) == (pid, signal.SIGKILL), "somebody else killed it"


def children_of(pid: int) -> list[int]:
    """The processes whose parent is this one, dead ones that nobody buried among them."""
    return [child for child, parent in _parents().items() if parent == pid]


def descendants_of(pid: int) -> set[int]:
    """The children of this process, their children, and so on."""
    parents, found = _parents(), set[int]()
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        found |= generation
    return found


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return found
