"""Reads a JSONL file: forwards from a cursor, backwards from the end, and as it grows.

Memory use is bounded by a chunk, or by the longest line. Each chunk starts at a line: reading the first half of a line
twice is less work than joining halves. An unfinished line is not kept between two reads: its writer may die, and a
repair replace it with another line. The same holds for the lines of an unfinished `append`: readers see all of its
lines or none.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Self

from holdfast.core.log import chain
from holdfast.core.log.codec import Line, Malformed, parse
from holdfast.leaf.files.watch import Watcher
from holdfast.store.base import START, Batch, Position
from holdfast.store.files.log_bytes import LogBytes, open_log_bytes, stat_log

CHUNK_BYTES = 128 * 1024  # larger ones are returned to the kernel each time, which then has to clear new pages
_TAIL_CHUNK_BYTES = 4096  # read at a time to find the end of a line


class _InTurns:
    """Batches of a log, between which other tasks run.

    A reader that stops early closes the file at once. An async generator would keep it open until the event loop runs
    again, which may be after a thousand other logs.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._has_begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        if self._has_begun:
            await asyncio.sleep(0)
        self._has_begun = True
        for batch in self._batches:
            return batch
        raise StopAsyncIteration


class FileLog:
    def __init__(self, path: str, watcher: Watcher | None = None) -> None:
        self._path = path
        self._watcher = watcher or Watcher()

    def read(self, after: Position = START) -> AsyncIterator[Batch]:
        return _InTurns(self._read(after))

    def _read(self, after: Position) -> Iterator[Batch]:
        position, size = after, CHUNK_BYTES
        with open_log_bytes(self._path) as log:
            end = _end_of_last_append(log)  # later bytes may be removed and replaced during this read
            while chunk := log.pread(max(0, min(size, end - position)), position):
                cut = chunk.rfind(b"\n") + 1
                if not cut:
                    if len(chunk) < size:  # it was truncated during this read
                        return
                    size *= 2  # one line is longer than the chunk: read further
                    continue
                chunk = chunk[:cut]
                yield Batch(position, chunk)
                position, size = position + cut, CHUNK_BYTES

    def read_backwards(self, before: Position | None = None) -> AsyncIterator[Batch]:
        return _InTurns(self._read_backwards(before))

    def _read_backwards(self, before: Position | None) -> Iterator[Batch]:
        with open_log_bytes(self._path) as log:
            last = _end_of_last_append(log)
            end = last if before is None else min(before, last)
            size = CHUNK_BYTES
            while end > START:
                start = max(START, end - size)
                chunk = log.pread(end - start, start)
                if start > START:
                    cut = chunk.find(b"\n") + 1
                    if cut == len(chunk):  # one line is longer than the chunk: read further back
                        size *= 2
                        continue
                    start, chunk = start + cut, chunk[cut:]
                yield Batch(start, chunk)
                end, size = start, CHUNK_BYTES

    async def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        while True:
            path, watched = stat_log(self._path)
            async with self._watcher.changes(path) as changed:
                while True:
                    changed.clear()  # before the read, so that changes during it are not missed
                    now, status = stat_log(self._path)
                    if now != path or not os.path.samestat(status, watched):
                        break  # it was compressed, or expanded
                    if path == self._path:
                        after = min(after, status.st_size)  # a failed sync was rolled back
                    async for batch in self.read(after):
                        after = batch.end
                        yield batch
                    await changed.wait()

    async def torn_tail(self) -> bytes:
        with open_log_bytes(self._path) as log:
            end = _end_of_last_append(log)
            return log.pread(max(0, log.size - end), end)


def unterminated_line(torn_tail: bytes) -> Line | Malformed | None:
    """Parse the bytes after the last complete `append`, if they are a line that only lacks its newline."""
    if b"\n" in torn_tail or chain.has_more_to_come(torn_tail):
        return Malformed("cut short: other lines of the same append are missing")
    return parse(torn_tail)


def _end_of_last_append(log: LogBytes) -> Position:
    """Return the position after the last complete line that ends its `append`."""
    end = _end_of_last_line(log, log.size)
    while chain.has_more_to_come(log.pread(min(chain.TAIL_BYTES, end), max(START, end - chain.TAIL_BYTES))):
        end = _end_of_last_line(log, end - 1)
    return end


def _end_of_last_line(log: LogBytes, end: Position) -> Position:
    """Return the position after the last newline before `end`."""
    while end > START:
        start = max(START, end - _TAIL_CHUNK_BYTES)
        found = log.pread(end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return START
