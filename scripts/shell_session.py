"""Runs shell commands in a terminal of their own, and keeps what was typed and shown.

`scripts/first_hour.py`, `scripts/screenshot.py` and the test of the documentation's commands use it.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from typing import NamedTuple, Self

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_PIECES = re.compile(r"(\n|\x1b\[\d+F|\x1b\[[JK])")
_UP = re.compile(r"\x1b\[(\d+)F")
_ERASE_BELOW, _ERASE_LINE = "\x1b[J", "\x1b[K"
_POLL_S = 0.2


class UnexpectedOutcome(Exception):
    """A command ended in another way than expected, or did not show what it should."""


class Shown(NamedTuple):
    command: str
    output: str
    exit_code: int
    seconds: float
    began: float

    @property
    def text(self) -> str:
        """What stayed on the screen."""
        return plain("\n".join(screen_lines(self.output)))


class ShellSession:
    """A user's shell: its folder, its environment, its screen."""

    def __init__(self, cwd: str, environment: dict[str, str], *, columns: int = 100, limit_s: float = 600) -> None:
        self.cwd = cwd
        self.environment = {**environment, "TERM": "xterm-256color", "COLUMNS": str(columns)}
        self.history: list[Shown] = []
        self._columns = columns
        self._limit_s = limit_s

    def run(self, command: str, *, code: int = 0, answers: dict[str, str] | None = None) -> Shown:
        """Run to the end; `answers` are typed when the screen shows their texts."""
        with self.start(command) as running:
            for text, keys in (answers or {}).items():
                running.wait_for(text)
                running.type(keys)
            return running.finish(code)

    def start(self, command: str) -> "RunningCommand":
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, self._columns, 0, 0))
        process = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=self.cwd,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - these programs have one thread
        )
        os.close(theirs)
        return RunningCommand(command, process, ours, self._limit_s, self.history.append)


class RunningCommand:
    """One command in its terminal."""

    def __init__(
        self,
        command: str,
        process: subprocess.Popen[bytes],
        terminal: int,
        limit_s: float,
        on_end: Callable[[Shown], None],
    ) -> None:
        self.pid = process.pid
        self._command = command
        self._process = process
        self._terminal = terminal
        self._began = time.monotonic()
        self._deadline = self._began + limit_s
        self._on_end = on_end
        self._output = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._terminal)

    def wait_for(self, text: str) -> None:
        while text not in plain(self._text):
            if not self._read():
                raise UnexpectedOutcome(f"{self._command}\nnever showed {text!r}:\n{self._text}")

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def kill(self) -> Shown:
        """End it with SIGKILL, as a crash would."""
        os.kill(self._process.pid, signal.SIGKILL)
        return self.finish(-signal.SIGKILL)

    def finish(self, code: int | None = 0) -> Shown:
        """Wait for its end. The exit code must be this one; None takes any."""
        while self._process.poll() is None and self._read():
            pass
        while select.select([self._terminal], [], [], 0)[0] and self._read():
            pass
        exit_code = self._process.wait()
        shown = Shown(self._command, self._text, exit_code, time.monotonic() - self._began, self._began)
        self._on_end(shown)
        if code is not None and exit_code != code:
            raise UnexpectedOutcome(f"{self._command}\nexit code {exit_code}, expected {code}:\n{shown.text}")
        return shown

    @property
    def _text(self) -> str:
        return self._output.decode(errors="replace")

    def _read(self) -> bool:
        """Read what is shown next. False when the terminal was closed."""
        while not select.select([self._terminal], [], [], _POLL_S)[0]:
            if self._process.poll() is not None:
                return False
            if time.monotonic() > self._deadline:
                raise UnexpectedOutcome(f"{self._command}\ndid not end in time:\n{self._text}")
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # Linux: the other end was closed
            return False
        self._output += data
        return bool(data)


def screen_lines(output: str) -> list[str]:
    """Return what stays on the screen, with its colours: a redrawn area appears once, as it was last."""
    lines, row = [""], 0
    for part in _PIECES.split(output.replace("\r", "")):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif up := _UP.fullmatch(part):
            row = max(0, row - int(up[1]))
        elif part == _ERASE_BELOW:
            del lines[row + 1 :]
            lines[row] = ""
        elif part and part != _ERASE_LINE:
            lines[row] = part
    while lines and not lines[-1]:
        lines.pop()
    return lines


def plain(output: str) -> str:
    """Return the text without colours and cursor movements."""
    return _CONTROL.sub("", output)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
