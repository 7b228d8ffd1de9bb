"""`holdfast` programs that start in milliseconds, real processes that can be killed: forked from one that is warm."""

import array
import marshal
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.support.crash_suite.program import MODULES, STAND_IN, ZYGOTE
from tests.support.wait import PATIENCE
from tests.support.zygote import ROOM

KILLED = -signal.SIGKILL
_STAND_IN = os.path.join(os.path.dirname(__file__), "interpreter_stub.py")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Born(NamedTuple):
    """A program that runs. `code` can be read when it has ended, and is empty when it was killed."""

    pid: int
    code: int
    out: int
    err: int

    def ended(self) -> Ended:
        said = os.read(self.code, 100)
        return Ended(int(said) if said else KILLED, _read(self.out), _read(self.err))


class Nursery:
    """`model` is the address of the one that the built-in agents ask, where there are any."""

    def __init__(self, folder: str, model: str | None = None) -> None:
        self.model = model
        self.socket = os.path.join(folder, "zygote")
        self.stand_in = os.path.join(folder, "python")
        with open(_STAND_IN, encoding="utf-8") as source, open(self.stand_in, "w", encoding="utf-8") as file:
            file.write(f"#!{sys._base_executable} -IS\n{source.read()}")  # type: ignore[attr-defined]
        os.chmod(self.stand_in, stat.S_IRWXU)

    def environment(self) -> dict[str, str]:
        """What a program needs so that those that it starts come from here."""
        return {STAND_IN: self.stand_in, ZYGOTE: self.socket}

    def run(self, arguments: list[str], cwd: str, environment: Mapping[str, str]) -> Ended:
        """One program, to its end or its death."""
        with self.start(arguments, cwd, environment) as born:
            poll = select.poll()
            poll.register(born.code, select.POLLIN)
            if not poll.poll(PATIENCE * 1000):
                os.kill(born.pid, signal.SIGKILL)
                raise AssertionError(f"holdfast {' '.join(arguments)} does not end: {_read(born.err)}")
            return born.ended()

    @contextmanager
    def start(self, arguments: list[str], cwd: str, environment: Mapping[str, str]) -> Iterator["Born"]:
        here, there = os.pipe()
        with _scratch() as out, _scratch() as err, open(os.devnull, "rb") as nothing, os.fdopen(here, "rb"):
            asked = {
                "module": "tests.support.crash_suite.program",
                "arguments": arguments,
                "folder": cwd,
                "environment": {**environment, **self.environment()},
            }
            pid = self._ask(asked, [nothing.fileno(), out, err, there])
            os.close(there)
            yield Born(pid, here, out, err)

    def _ask(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self.socket)
            handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            connection.sendmsg([marshal.dumps(asked)], handed)
            return int(connection.recv(100))


@contextmanager
def _scratch() -> Iterator[int]:
    fd = os.memfd_create("output")
    try:
        yield fd
    finally:
        os.close(fd)


def _read(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")


@contextmanager
def nursery(folder: str, *more: str, model: str | None = None) -> Iterator[Nursery]:
    """`more` is what else is to be warm."""
    found = Nursery(folder, model)
    modules = ("tests.support.crash_suite.program", *MODULES, *more)
    command = [sys.executable, "-m", "tests.support.zygote", found.socket, *modules]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env={**os.environ, **ROOM}
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield found
        finally:
            process.kill()
