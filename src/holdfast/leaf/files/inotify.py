"""The kernel's inotify, as far as `watch` needs it."""

import ctypes
import os
import struct
from collections.abc import Iterator
from errno import EINTR
from typing import Any

MODIFY, ATTRIB, MOVED_TO, CREATE, DELETE_SELF, MOVE_SELF, Q_OVERFLOW = 0x2, 0x4, 0x80, 0x100, 0x400, 0x800, 0x4000

_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ_BYTES = 65_536  # holds an event with the longest name


class Inotify:
    """An instance that never blocks. Raises `OSError` as the kernel does."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._call("inotify_init1", os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        return self._fd

    def add_watch(self, path: str, mask: int) -> int:
        """Return the number of the watch, which is the same for every path of a file."""
        return self._call("inotify_add_watch", self._fd, os.fsencode(path), ctypes.c_uint32(mask))

    def remove_watch(self, watch: int) -> None:
        self._call("inotify_rm_watch", self._fd, watch)

    def read(self) -> Iterator[tuple[int, int]]:
        """Yield the watch and the mask of each event that waits; the watch of `Q_OVERFLOW` is -1."""
        while True:
            try:
                events = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            start = 0
            while start < len(events):
                watch, mask, _, name_bytes = _EVENT.unpack_from(events, start)
                yield watch, mask
                start += _EVENT.size + name_bytes

    def close(self) -> None:
        os.close(self._fd)

    def _call(self, name: str, *arguments: Any) -> int:
        while True:
            result: int = getattr(self._libc, name)(*arguments)
            if result != -1:
                return result
            error = ctypes.get_errno()
            if error != EINTR:
                raise OSError(error, os.strerror(error))
