"""Setting a torn tail aside.

A crash can only tear the last commit, for each is synced before the next is begun. A line that is not the
first of its commit ends in a space (`}␠` instead of `}`; JSON does not mind), so the last commit can be told:
walking back from the end, it goes on to the first readable line without that mark. If a line in it is no
JSON, then it and all after it were never acknowledged. They are copied beside the log, and cut off. So are the lines
before it that belong to the same call, and those of a call whose last line is not there: each line of a call but
the last says that more is to come (see `core.chain`).

What is unreadable before the last commit was whole once, and was acknowledged: that is damage, not a tear.
It is left where it is, for readers to pass over and `verify` to report.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.core.events.log import LogRepaired
from holdfast.core.log import chain
from holdfast.core.log.codec import Line, is_json
from holdfast.leaf.files.directories import sync_directory
from holdfast.store.base import Position
from holdfast.store.files.disk import Disk, sync_or_forget, write_all
from holdfast.store.files.reading import CHUNK, FileLog, last_line
from holdfast.store.sequencer import CONTINUES

_TORN = ".torn-"


async def repair(path: str, disk: Disk) -> None:
    """Leave the file ending in a whole call, with all that was ever acknowledged, and all of it on the disk.

    A killed writer's last lines may be whole and yet not synced. Whoever opens the log builds on them, so they must
    not vanish in a power cut later; and when they cannot be synced, the next to open it must not find them.
    """
    torn = await _first_torn_call(path)  # before the end is looked at: it may be whole, and follow a hole
    if torn is not None:
        _set_aside(path, torn, disk)
    else:
        await end_line(path, disk)
    if os.path.getsize(path):
        with _opened(path) as fd:
            sync_or_forget(disk, fd)


async def end_line(path: str, disk: Disk) -> None:
    """Leave the file ending in a newline, and in the last line of a call. What stands after that, nobody has read."""
    fragment = await FileLog(path).fragment()
    if not fragment:
        return
    if isinstance(last_line(fragment), Line):
        with _opened(path) as fd:  # whole but for its newline
            write_all(disk, fd, b"\n")
            sync_or_forget(disk, fd)
    else:
        _set_aside(path, os.path.getsize(path) - len(fragment), disk)


async def repairs(path: str) -> Sequence[LogRepaired]:
    """Every repair that was ever made to this file, as its kept pieces tell."""
    folder, name = os.path.split(path)
    kept = re.compile(re.escape(name + _TORN) + r"(\d+)(-\d+)?")
    return [
        LogRepaired(
            position=int(piece[1]),
            bytes=os.path.getsize(os.path.join(folder, entry)),
            kept_as=entry,
            reason="the last write was cut off before it was acknowledged",
        )
        for entry in sorted(os.listdir(folder))
        if (piece := kept.fullmatch(entry))
    ]


async def _first_torn_call(path: str) -> Position | None:
    """Where the call begins that wrote the first unreadable line of the last commit.

    None when all of the last commit stands after the last whole call: what is before it was acknowledged.
    """
    torn = None
    first, newline, _ = (await FileLog(path).fragment()).partition(b"\n")
    if newline and not first.endswith(CONTINUES):
        return None
    async for batch in FileLog(path).read_back():
        position = batch.end
        for line in reversed(batch.data.split(b"\n")[:-1]):
            end, position = position, position - len(line) - 1
            readable = is_json(line) or not line.strip()
            if not readable or (end == torn and chain.more_to_come(line)):
                torn = position
            if readable and not line.endswith(CONTINUES):
                return torn
    return torn


def _set_aside(path: str, start: Position, disk: Disk) -> None:
    """Copy what stands after `start` to a file beside, durably, and only then cut it off."""
    kept = _unused_name(f"{path}{_TORN}{start}")
    temporary = f"{path}.tmp"
    with _opened(temporary, os.O_CREAT | os.O_TRUNC) as target:
        for piece in _pieces(path, start):
            write_all(disk, target, piece)
        disk.sync(target)
    os.rename(temporary, kept)
    sync_directory(os.path.dirname(path))
    with _opened(path) as fd:
        disk.truncate(fd, start)
        sync_or_forget(disk, fd)


def _unused_name(name: str) -> str:
    """Killed between copy and cut, the next repair copies again: two copies are better than none."""
    number, candidate = 1, name
    while os.path.exists(candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _pieces(path: str, start: Position) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while piece := file.read(CHUNK):
            yield piece


@contextmanager
def _opened(path: str, extra: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | extra, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
