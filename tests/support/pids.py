"""A process with a pid of one's choice: what a machine gives to somebody else sooner or later."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE3 = 435
_FIELDS = 11  # of struct clone_args, each of 64 bits


@contextmanager
def with_pid(pid: int) -> Iterator[None]:
    """A stranger that has this pid and does nothing, for as long as the context lasts. `OSError` when it cannot be."""
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
