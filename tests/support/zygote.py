"""Programs that start in milliseconds: forked from a process that has their modules imported already.

Each is a process of its own, with its own stdin, stdout, environment and folder, and can be killed. It runs in a
session of its own and is reaped by the zygote, so that its death shows at once. Of the descriptors that it is given the
first three are its standard streams; to a fourth it writes its exit code, and nothing when it is killed.

python -m tests.support.zygote SOCKET MODULE…
"""

import array
import ctypes
import fcntl
import gc
import importlib
import marshal
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

ROOM = {"ROOM_FOR_THE_ENVIRONMENTS_OF_CHILDREN": "x" * 16_000}
_MOST = 8  # descriptors
_HIGH = 500  # a descriptor


def main() -> None:
    path, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what is here stays: a child that looks through it for garbage would copy all of it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        connection, _ = server.accept()
        with connection:
            asked, descriptors = _receive(connection)
            if asked is None:  # who was to ask was killed before it did
                continue
            pid = os.fork()
            if pid == 0:
                server.close()
                connection.close()
                _become(asked, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            with suppress(OSError):  # who asked may be dead by now
                connection.sendall(str(pid).encode())


def _receive(connection: socket.socket) -> tuple[Any, list[int]]:
    size = array.array("i").itemsize
    data, ancillary, _, _ = connection.recvmsg(1_000_000, socket.CMSG_SPACE(_MOST * size))
    descriptors = array.array("i")
    for _, _, raw in ancillary:
        descriptors.frombytes(raw[: len(raw) - len(raw) % size])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return (marshal.loads(data) if data else None), list(descriptors)


def _become(asked: Any, descriptors: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (  # those of the zygote know where they led
        os.fdopen(number, mode, buffering=1, closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    descriptors[3:] = [_move_high(descriptor) for descriptor in descriptors[3:]]
    for descriptor, number in zip(descriptors[4:], asked.get("held", ()), strict=True):
        os.dup2(descriptor, number)  # what it was given to hold, it may give to others
        os.close(descriptor)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    _show(asked["environment"])
    code = 1
    try:
        code = importlib.import_module(asked["module"]).run(asked["arguments"])
    except Exception as error:  # noqa: BLE001 - the end of a process
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor in descriptors[3:4]:
            os.write(descriptor, str(code).encode())
        os._exit(code)


def _move_high(descriptor: int) -> int:
    """To a number that none of those to be held has."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(descriptor)
    return high


def _show(environment: Mapping[str, str]) -> None:
    """Write it over the one that /proc shows, which is the zygote's; a process is found again by what stands there."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    shown = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in sorted(environment.items()))
    assert len(shown) <= end - start, "the zygote has too small an environment"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, shown, len(shown))


if __name__ == "__main__":
    main()
