"""A terminal to run a program in: what it shows depends on there being one."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.program import Outcome, Program, assert_no_noise
from tests.support.wait import PATIENCE

EOF, CTRL_C = "\x04", "\x03"

_SIZE = "HHHH"


def shown(holdfast: Program, *arguments: str, columns: int = 80, code: int = 0, **env: str) -> str:
    """What the program writes when stdout and stderr are a terminal that wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack(_SIZE, 24, columns, 0, 0))
    environment = {"TERM": "xterm-256color", **env}
    with holdfast.start(*arguments, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = _all_of(ours)
        assert process.wait() == code, output
    os.close(ours)
    return output.replace("\r\n", "\n")


def answered(holdfast: Program, *arguments: str, answer: str) -> Outcome:
    """What becomes of the program when it asks on its terminal, and somebody types this. All it shows is in `err`."""
    ours, theirs = pty.openpty()
    with holdfast.start(
        *arguments, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_take_the_terminal
    ) as process:
        os.close(theirs)
        asked = ""
        while not asked.endswith("[y/N] "):
            asked += os.read(ours, 65536).decode()
        os.write(ours, answer.encode())
        told = _all_of(ours)
        outcome = Outcome(process.wait(), "", (asked + told).replace("\r\n", "\n"))
    os.close(ours)
    assert_no_noise(outcome)
    return outcome


class Conversation:
    """A program at its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self._process = process
        self._fd = fd
        self._rest = ""  # shown after the words of the last `until`

    def until(self, words: str) -> str:
        """What it shows, up to and with these words."""
        shown = self._rest
        while words not in shown:
            shown += _read(self._fd).decode(errors="replace")
        end = shown.index(words) + len(words)
        self._rest = shown[end:]
        return shown[:end]

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """As Ctrl-C does while the program leaves the terminal to the kernel."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Its exit code; what it still shows is not kept."""
        told = _all_of(self._fd)
        assert_no_noise(Outcome(0, told, ""))
        return self._process.wait()


@contextmanager
def conversation(holdfast: Program, *arguments: str, env: dict[str, str] | None = None) -> Iterator[Conversation]:
    ours, theirs = pty.openpty()
    how: dict[str, Any] = {"start_new_session": True, "preexec_fn": _take_the_terminal}
    with holdfast.start(*arguments, env=env, stdin=theirs, stdout=theirs, stderr=theirs, **how) as process:
        os.close(theirs)
        try:
            yield Conversation(process, ours)
        finally:
            process.kill()
            os.close(ours)


def _take_the_terminal() -> None:
    """So that Ctrl-C, typed there, reaches the program."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(fd: int) -> bytes:
    assert select.select([fd], [], [], PATIENCE)[0], "the program shows nothing more, and does not end"
    return os.read(fd, 65536)


def _all_of(fd: int) -> str:
    data = b""
    while True:
        try:
            piece = _read(fd)
        except OSError:  # how a terminal says that its last user is gone
            return data.decode()
        if not piece:
            return data.decode()
        data += piece
