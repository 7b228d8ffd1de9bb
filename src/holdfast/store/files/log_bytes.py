"""The bytes of a log, in a plain file or in a compressed one.

`events.jsonl` is the log; `events.jsonl.gz` beside it is the log of an archived run, when there is no plain file. While
both exist, a process was killed between writing the one and deleting the other: the plain one counts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.store.files.frames import CompressedLog
from holdfast.store.files.layout import COMPRESSED_SUFFIX

_ATTEMPTS = 3  # to open a log that is being compressed or expanded


class LogBytes(Protocol):
    @property
    def size(self) -> int: ...

    def pread(self, count: int, position: int) -> bytes: ...


class PlainLog:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, count: int, position: int) -> bytes:
        return os.pread(self._fd, count, position)


def stat_log(path: str) -> tuple[str, os.stat_result]:
    """Return the file that has the log now, and its status. `path` is that of the plain file."""
    for _ in range(_ATTEMPTS):
        for candidate in (path, f"{path}{COMPRESSED_SUFFIX}"):
            try:
                return candidate, os.stat(candidate)
            except FileNotFoundError:
                continue
    return path, os.stat(path)


@contextmanager
def open_log_bytes(path: str) -> Iterator[LogBytes]:
    for attempt in range(_ATTEMPTS):
        found, _ = stat_log(path)
        try:
            file = open(found, "rb", buffering=0)  # noqa: SIM115 - closed below
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue  # it was compressed or expanded meanwhile
        with file:
            is_compressed = found.endswith(COMPRESSED_SUFFIX)
            yield CompressedLog(file.fileno(), found) if is_compressed else PlainLog(file.fileno())
        return
