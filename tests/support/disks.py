"""Disks that count, fail, write too little, or forget what was not synced. Each is a `Disk` by its `disk`."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.leaf.files.disk import REAL_DISK, Disk
from holdfast.store.files.layout import INBOX, LOG

PAGE = 4096


class CountingDisk:
    def __init__(self) -> None:
        self.writes = 0
        self.syncs = 0

    @property
    def disk(self) -> Disk:
        return Disk(self._write, self._sync)

    def _write(self, fd: int, data: bytes | memoryview) -> int:
        self.writes += 1
        return os.write(fd, data)

    def _sync(self, fd: int) -> None:
        self.syncs += 1
        os.fdatasync(fd)


@dataclass
class FailingDisk:
    """Fails from the `fails_at`-th call of one kind on; a failing write leaves `leaves` bytes behind."""

    kind: str
    fails_at: int
    code: int = errno.ENOSPC
    leaves: int = 0
    healed: bool = False
    calls: dict[str, int] = field(default_factory=lambda: {"write": 0, "sync": 0, "truncate": 0})

    @property
    def disk(self) -> Disk:
        return Disk(self._write, self._sync, self._truncate)

    def _write(self, fd: int, data: bytes | memoryview) -> int:
        if self._fails("write"):
            if self.leaves:
                os.write(fd, data[: self.leaves])
            raise OSError(self.code, os.strerror(self.code))
        return REAL_DISK.write(fd, data)

    def _sync(self, fd: int) -> None:
        if self._fails("sync"):
            raise OSError(self.code, os.strerror(self.code))
        REAL_DISK.sync(fd)

    def _truncate(self, fd: int, size: int) -> None:
        if self._fails("truncate"):
            raise OSError(self.code, os.strerror(self.code))
        REAL_DISK.truncate(fd, size)

    def _fails(self, kind: str) -> bool:
        self.calls[kind] += 1
        return not self.healed and kind == self.kind and self.calls[kind] > self.fails_at


def short_writes(length: Callable[[int], int]) -> Disk:
    """A disk that takes only `length(offered)` bytes a call."""
    return Disk(write=lambda fd, data: os.write(fd, data[: max(1, length(len(data)))]))


class PowerCutOutcome(Protocol):
    """Decides what a power cut leaves of what was not synced."""

    def size(self, low: int, high: int, ends: list[int]) -> int:
        """The length of the file, from `low` to `high`. `ends` are where lines end: the delicate places."""
        ...

    def keeps(self, page: int) -> bool:
        """Whether this page, as it was last written, reached the disk."""
        ...


class LossyDisk:
    """A machine's disk whose power can be cut.

    What was synced is there afterwards. Of what was not, any pages may be: a page that is not reads as it was
    at the last sync, with zeros where there was nothing. The file's length lies anywhere between. Names are
    durable at once. One of these serves every "process" of a test: they share a machine.

    A sync that fails is the last try: the kernel then takes the pages that it could not write for written, and a
    later sync, though it succeeds, brings only pages that were written to since. Until they are forgotten they can be
    read.
    """

    def __init__(self) -> None:
        self._synced: dict[str, bytes] = {}
        self._dirty: dict[str, set[int]] = {}
        self.calls_left: int | None = None
        self.next_sync_fails = False

    @property
    def disk(self) -> Disk:
        return Disk(self._write, self._sync, self._truncate, self._forget)

    def fail_after(self, calls: int) -> None:
        """The power goes at the call after so many more."""
        self.calls_left = calls

    def tear(self, path: str, data: bytes) -> None:
        """A process of this machine is killed in the middle of a write: so much of it arrived."""
        with open(path, "ab", buffering=0) as file:
            self._touched(file.fileno(), file.tell(), file.tell() + len(data))
            file.write(data)

    def cut(self, outcome: PowerCutOutcome) -> None:
        """The power goes, and comes back."""
        self.calls_left = None
        self._dirty.clear()
        for path, synced in self._synced.items():
            with open(path, "r+b", buffering=0) as file:
                left = _left(synced, file.read(), outcome)
                file.seek(0)
                file.write(left)
                file.truncate()
            self._synced[path] = left

    def _write(self, fd: int, data: bytes | memoryview) -> int:
        self._tick()
        start = os.fstat(fd).st_size
        self._touched(fd, start, start + len(data))
        return os.write(fd, data)

    def _sync(self, fd: int) -> None:
        self._tick()
        path = self._known(fd)
        if path is None:
            return
        dirty = self._dirty.pop(path, set())
        if self.next_sync_fails:
            self.next_sync_fails = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        old, new = self._synced[path], _content(fd)
        old = old.ljust(len(new), b"\0")[: len(new)]
        pages = range(0, len(new), PAGE)
        self._synced[path] = b"".join((new if at // PAGE in dirty else old)[at : at + PAGE] for at in pages)

    def _truncate(self, fd: int, size: int) -> None:
        self._tick()
        self._touched(fd, size, size + 1)
        os.ftruncate(fd, size)

    def _forget(self, fd: int) -> None:
        path = self._known(fd)
        if path is None:
            return
        shown, synced, dirty = _content(fd), self._synced[path], self._dirty.get(path, set())
        there = synced.ljust(len(shown), b"\0")[: len(shown)]
        pages = range(0, len(shown), PAGE)
        with open(path, "r+b", buffering=0) as file:
            file.write(b"".join((shown if at // PAGE in dirty else there)[at : at + PAGE] for at in pages))

    def _touched(self, fd: int, start: int, end: int) -> None:
        path = self._known(fd)
        if path is not None:
            self._dirty.setdefault(path, set()).update(range(start // PAGE, (end - 1) // PAGE + 1))

    def _tick(self) -> None:
        if self.calls_left is None:
            return
        if self.calls_left <= 0:
            raise OSError(errno.EIO, "the power is gone")
        self.calls_left -= 1

    def _known(self, fd: int) -> str | None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.basename(path) not in (LOG, INBOX):
            return None  # written aside, synced, then renamed: whole or absent
        self._synced.setdefault(path, _content(fd))
        return path


def _content(fd: int) -> bytes:
    with open(f"/proc/self/fd/{fd}", "rb") as file:
        return file.read()


def _left(synced: bytes, written: bytes, outcome: PowerCutOutcome) -> bytes:
    if synced == written:
        return written
    low, high = sorted((len(synced), len(written)))
    ends = [at + 1 for at, byte in enumerate(written) if byte == ord("\n") and low <= at < high]
    size = outcome.size(low, high, ends)
    old, new = synced.ljust(size, b"\0")[:size], written.ljust(size, b"\0")[:size]
    pages = range(0, size, PAGE)
    return b"".join(
        (new if old[at : at + PAGE] == new[at : at + PAGE] or outcome.keeps(at // PAGE) else old)[at : at + PAGE]
        for at in pages
    )
