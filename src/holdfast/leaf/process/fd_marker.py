"""Tethers: open files by which a process is found though it shed its marks, and who has a file open at all."""

import fcntl
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import NOT_TO_BE_SEEN, pids, places

# Beyond what node takes for its own, and no number that scripts write by hand: `flock -n 200 ... 200>lock` would
# close it, and bash has 255 for itself.
_HIGH = 317

_Told = dict[bytes, bytes]  # what the kernel tells of an open file, and asks nobody for


class _File(NamedTuple):
    told: _Told
    stat: os.stat_result


@contextmanager
def tethered(path: str | None, mark: str = "") -> Iterator[tuple[int, ...]]:
    """The file as a descriptor for a child to inherit, by which `holding` finds it; nothing when there is no file."""
    if path is None:
        yield ()
        return
    fd = tether(path, mark)
    try:
        yield (fd,)
    finally:
        os.close(fd)


def tether(path: str, mark: str = "") -> int:
    """Open the file as no reader of it does, and at the mark's own place in it: children share both.

    Its number is high, because some agents let nothing through to their children that looks like their own.
    """
    with ExitStack() as stack:
        low = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, low)
        os.lseek(low, _place_of(mark), os.SEEK_SET)
        try:
            return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        except OSError:  # so many may not be open here
            return os.dup(low)


def holding(path: str | None, mark: str | None = None, among: Iterable[int] | None = None) -> list[ProcessIdentity]:
    """Every process that holds this tether, be it only because it inherited it; only those of a mark, if one is given.

    Whoever reads the file, as a user's `tail`, does not hold it. Where there is no file, nobody does.
    """
    return [*each_holding(path, mark, among)]


def each_holding(
    path: str | None, mark: str | None = None, among: Iterable[int] | None = None
) -> Iterator[ProcessIdentity]:
    """The same, each as soon as it is found: it may be gone, and another in its place, when all are.

    Who was found is looked at again when it was identified: its pid may have been given to another in between.
    """
    file = _file_at(path)
    if file is None:
        return
    place = None if mark is None else _place_of(mark)

    def is_tether(told: _Told) -> bool:
        return int(told[b"flags"], 8) & os.O_ACCMODE == os.O_WRONLY and place in (None, int(told[b"pos"]))

    for pid in pids() if among is None else among:
        if _has_open(pid, file, is_tether):
            process = identify(pid)
            if process is not None and _has_open(pid, file, is_tether):
                yield process


def has_open(path: str) -> bool:
    """True when some process has this file open: for more than to ask who has, as we do here."""
    file = _file_at(path)
    return file is not None and any(_has_open(pid, file, _is_for_use) for pid in pids())


def _file_at(path: str | None) -> _File | None:
    if path is None:
        return None
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _File(_told_of("/proc/self", str(fd)), os.fstat(fd))
    finally:
        os.close(fd)


def _is_for_use(told: _Told) -> bool:
    return not int(told[b"flags"], 8) & os.O_PATH


def _has_open(pid: int, file: _File, is_meant: Callable[[_Told], bool]) -> bool:
    return any(_is_open_as(place, fd, file, is_meant) for place, fd in _descriptors(pid))


def _descriptors(pid: int) -> list[tuple[str, str]]:
    """Each with the place at which it is told of."""
    for place in places(pid):
        with suppress(*NOT_TO_BE_SEEN):
            if names := os.listdir(f"{place}/fd"):
                return [(place, name) for name in names]
    return []


def _is_open_as(place: str, fd: str, file: _File, is_meant: Callable[[_Told], bool]) -> bool:
    """Only one that has the number of the file is looked at: others may be on a server that does not answer any more.

    Older kernels do not tell the number; there, all that are meant are looked at.
    """
    with suppress(*NOT_TO_BE_SEEN):  # it was closed meanwhile; the others are still there
        told = _told_of(place, fd)
        if told.get(b"ino") == file.told.get(b"ino") and is_meant(told):
            with suppress(OSError):
                return os.path.samestat(os.stat(f"{place}/fd/{fd}"), file.stat)
    return False


def _told_of(place: str, fd: str) -> _Told:
    with open(f"{place}/fdinfo/{fd}", "rb") as file:
        return {name: value for name, _, value in (line.partition(b":") for line in file)}


def _place_of(mark: str) -> int:
    return zlib.crc32(os.fsencode(mark)) >> 1
