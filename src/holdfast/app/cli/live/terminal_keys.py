"""Reads single keys from the terminal, without echo, only while an answer is awaited.

The terminal keeps its signals (Ctrl-C, Ctrl-Z). Keys that were typed before are discarded, so that they never answer a
request that their typist had not seen.
"""

import asyncio
import os
import sys
import termios
import tty
from contextlib import suppress
from typing import Any

_READ_BYTES = 64
_VMIN = 6  # index of the control characters in the attributes


def reads_keys() -> bool:
    """Whether a person can press keys here."""
    return sys.stdin is not None and sys.stdin.isatty()


class TerminalKeys:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved: list[Any] | None = None
        self._keys: asyncio.Queue[str] = asyncio.Queue()

    @property
    def is_enabled(self) -> bool:
        return self._saved is not None

    async def next(self) -> str:
        return await self._keys.get()

    def enable(self) -> None:
        """Start reading. Does nothing in the background, where the kernel would stop this process."""
        if self._saved is not None or not self._is_in_foreground():
            return
        with suppress(termios.error, OSError):
            saved = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSAFLUSH)
            attributes = termios.tcgetattr(self._fd)
            attributes[_VMIN][termios.VMIN] = 0  # never block the event loop
            termios.tcsetattr(self._fd, termios.TCSANOW, attributes)
            asyncio.get_running_loop().add_reader(self._fd, self._read)
            self._saved = saved

    def disable(self) -> None:
        """Stop reading, and restore the terminal."""
        if self._saved is None:
            return
        asyncio.get_running_loop().remove_reader(self._fd)
        with suppress(termios.error, OSError):
            if self._is_in_foreground():
                termios.tcsetattr(self._fd, termios.TCSAFLUSH, self._saved)
        self._saved = None
        self._drop()

    def discard(self) -> None:
        """Forget the keys that were pressed until now."""
        with suppress(termios.error, OSError):
            if self._is_in_foreground():
                termios.tcflush(self._fd, termios.TCIFLUSH)
        self._drop()

    def _drop(self) -> None:
        while not self._keys.empty():
            self._keys.get_nowait()

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES) if self._is_in_foreground() else b""
        except OSError:
            data = b""
        if not data:  # the terminal is gone, or belongs to another process now
            self.disable()
        for key in data.decode(errors="replace"):
            self._keys.put_nowait(key)

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False
