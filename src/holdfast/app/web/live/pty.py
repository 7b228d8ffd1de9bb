"""A program on a terminal of its own, watched by any number of clients that come and go.

The kernel ends it when the server dies: its terminal is gone then.
"""

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

KEPT_BYTES = 64 * 1024  # of the output, for who comes later
_READ_BYTES = 64 * 1024
_MAX_UNWRITTEN_BYTES = 1024 * 1024
_MAX_SIDE = 1_000
_WITH_TERMINAL = 'exec "$@" <>"$0" >&0 2>&0'  # opened by the leader of a session, it becomes its terminal


class Size(NamedTuple):
    columns: int
    rows: int

    def limited(self) -> "Size":
        return Size(*(min(max(side, 1), _MAX_SIDE) for side in self))


class PtyViewer(NamedTuple):
    """Callbacks of a client: output, and the end with its exit code."""

    show: Callable[[bytes], None]
    end: Callable[[int], None]


class Pty:
    """A running program. Opened in an event loop, and closed by `close` or by its end."""

    def __init__(self, command: Sequence[str], folder: str, environment: Mapping[str, str], size: Size) -> None:
        self.viewers: set[PtyViewer] = set()
        self.exit_code: int | None = None
        self._kept = bytearray()
        self._unwritten = bytearray()
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = os.openpty()
        os.set_blocking(self._ours, False)
        try:
            self.resize(size)
            self._process = subprocess.Popen(
                ("/bin/sh", "-c", _WITH_TERMINAL, os.ttyname(self._theirs), *command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._ours)
            os.close(self._theirs)
            raise
        self._loop.add_reader(self._ours, self._read)
        Thread(target=self._wait, daemon=True).start()

    @property
    def kept(self) -> bytes:
        """The end of its output."""
        return bytes(self._kept)

    def write(self, data: bytes) -> None:
        if self.exit_code is None and len(self._unwritten) + len(data) <= _MAX_UNWRITTEN_BYTES:
            self._unwritten += data
            self._flush()

    def resize(self, size: Size) -> None:
        columns, rows = size.limited()
        with suppress(OSError):
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """End the program as the closing of a terminal does."""
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGHUP)
            self._finish(-signal.SIGHUP)

    def _read(self) -> None:
        try:
            data = os.read(self._ours, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._loop.remove_reader(self._ours)
            return
        self._kept += data
        del self._kept[: max(0, len(self._kept) - KEPT_BYTES)]
        for viewer in tuple(self.viewers):
            viewer.show(data)

    def _flush(self) -> None:
        try:
            while self._unwritten:
                del self._unwritten[: os.write(self._ours, self._unwritten)]
        except BlockingIOError:
            self._loop.add_writer(self._ours, self._flush)
            return
        except OSError:
            self._unwritten.clear()
        self._loop.remove_writer(self._ours)

    def _wait(self) -> None:
        code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._finish, code)

    def _finish(self, code: int) -> None:
        if self.exit_code is not None:
            return
        self._read()  # what it said last
        self.exit_code = code
        self._loop.remove_reader(self._ours)
        self._loop.remove_writer(self._ours)
        os.close(self._ours)
        os.close(self._theirs)
        for viewer in tuple(self.viewers):
            viewer.end(code)
