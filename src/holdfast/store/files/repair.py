"""Repairs the torn tail of a log: moves it to a file of its own.

A crash can only tear the last commit, because each is synced before the next one starts. Every line of a commit except
the first ends in a space (`}␠` instead of `}`, which is valid JSON). So the last commit is found by reading back from
the end to the first readable line without that mark. If a line in it is not JSON, it and all later lines were never
acknowledged: they are copied beside the log, and truncated. So are earlier lines of the same `append`, and the lines of
an `append` whose last line is missing: each line of an `append` except the last says that more follow (see
`core.log.chain`).

An unreadable line before the last commit was complete and acknowledged once: that is damage, not a tear. It stays, for
readers to skip and `verify` to report.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.core.events.log import LogRepaired
from holdfast.core.log import chain
from holdfast.core.log.codec import Line, is_json
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import Disk, sync_or_drop, write_all
from holdfast.store.base import Position
from holdfast.store.files.reading import CHUNK_BYTES, FileLog, unterminated_line
from holdfast.store.sequencer import CONTINUATION_MARK

_TORN_SUFFIX = ".torn-"


async def repair(path: str, disk: Disk) -> None:
    """Make the file end in a complete `append`, with everything that was ever acknowledged, and sync it.

    A killed writer's last lines may be complete but not synced. The new owner builds on them, so a later power cut must
    not remove them; and if they cannot be synced, the next owner must not see them.
    """
    torn = await _first_torn_append(path)  # before the end is checked: a complete end may follow a hole
    if torn is not None:
        _set_aside(path, torn, disk)
    else:
        await terminate_line(path, disk)
    if os.path.getsize(path):
        with _open_for_append(path) as fd:
            sync_or_drop(disk, fd)


async def terminate_line(path: str, disk: Disk) -> None:
    """Make the file end in a newline and a complete `append`. No reader has seen what follows that."""
    fragment = await FileLog(path).torn_tail()
    if not fragment:
        return
    if isinstance(unterminated_line(fragment), Line):
        with _open_for_append(path) as fd:  # only its newline is missing
            write_all(disk, fd, b"\n")
            sync_or_drop(disk, fd)
    else:
        _set_aside(path, os.path.getsize(path) - len(fragment), disk)


async def find_repairs(path: str) -> Sequence[LogRepaired]:
    """Return every repair that was ever made to this file, from the files that hold the torn pieces."""
    folder, name = os.path.split(path)
    pattern = re.compile(re.escape(name + _TORN_SUFFIX) + r"(\d+)(-\d+)?")
    return [
        LogRepaired(
            position=int(match[1]),
            bytes=os.path.getsize(os.path.join(folder, entry)),
            kept_as=entry,
            reason="the last write was interrupted before it was acknowledged",
        )
        for entry in sorted(os.listdir(folder))
        if (match := pattern.fullmatch(entry))
    ]


async def _first_torn_append(path: str) -> Position | None:
    """Return the start of the `append` that wrote the first unreadable line of the last commit.

    None when the whole last commit comes after the last complete `append`: everything before was acknowledged.
    """
    torn = None
    first, newline, _ = (await FileLog(path).torn_tail()).partition(b"\n")
    if newline and not first.endswith(CONTINUATION_MARK):
        return None
    async for batch in FileLog(path).read_backwards():
        position = batch.end
        for line in reversed(batch.data.split(b"\n")[:-1]):
            end, position = position, position - len(line) - 1
            readable = is_json(line) or not line.strip()
            if not readable or (end == torn and chain.has_more_to_come(line)):
                torn = position
            if readable and not line.endswith(CONTINUATION_MARK):
                return torn
    return torn


def _set_aside(path: str, start: Position, disk: Disk) -> None:
    """Copy everything after `start` to a file beside the log, durably, and only then truncate."""
    kept = _unused_path(f"{path}{_TORN_SUFFIX}{start}")
    temporary = f"{path}.tmp"
    with _open_for_append(temporary, os.O_CREAT | os.O_TRUNC) as target:
        for piece in _read_chunks(path, start):
            write_all(disk, target, piece)
        disk.sync(target)
    os.rename(temporary, kept)
    sync_directory(os.path.dirname(path))
    with _open_for_append(path) as fd:
        disk.truncate(fd, start)
        sync_or_drop(disk, fd)


def _unused_path(path: str) -> str:
    """After a kill between copy and truncate, the next repair copies again: two copies are better than none."""
    number, candidate = 1, path
    while os.path.exists(candidate):
        number += 1
        candidate = f"{path}-{number}"
    return candidate


def _read_chunks(path: str, start: Position) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while piece := file.read(CHUNK_BYTES):
            yield piece


@contextmanager
def _open_for_append(path: str, extra_flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | extra_flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)
