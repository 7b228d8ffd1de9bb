"""Reads a log file that is not in a home: a copy, or the log of another tool."""

import os
from collections.abc import AsyncIterator

from holdfast.core.log.codec import Line, Malformed
from holdfast.leaf.errors import BadInput
from holdfast.store.base import START, Batch, Log, Position
from holdfast.store.files.reading import FileLog, unterminated_line


def open_log_file(path: str) -> Log:
    return FileLog(require_readable(path))


def open_foreign_log(path: str) -> Log:
    return _ForeignLog(require_readable(path))


class _ForeignLog(FileLog):
    """A log whose last line is read although its newline is missing: other tools write it last, or never."""

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        async for batch in super().read(after):
            after = batch.end
            yield batch
        last = await self.torn_tail()
        if isinstance(unterminated_line(last), Line):
            yield Batch(after, last + b"\n")


async def torn_last_line(log: Log) -> Malformed | None:
    """Return the last line when it is torn; None when the log ends with a complete line."""
    last = unterminated_line(await log.torn_tail())
    return last if isinstance(last, Malformed) else None


def require_readable(path: str) -> str:
    """Return the path; raises `BadInput` when it is not a readable file."""
    if not os.path.exists(path):
        raise BadInput(f"there is no {path!r}; name a log, a folder with one, or a run (`holdfast ls` lists them)")
    if not os.path.isfile(path):
        raise BadInput(f"{path} is not a file; name a log, or a folder with one")
    if not os.access(path, os.R_OK):
        raise BadInput(f"{path} is not readable for this user")
    return path
