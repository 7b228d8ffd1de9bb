"""Reading a JSONL file: forwards by cursor, backwards from the end, and as it grows.

Memory is bounded by a chunk, or by the longest line where one is longer. Each chunk begins where a line does:
to read the first half of a line once more is less work than to put its halves together. Nothing is kept of an
unfinished line between two looks at a file: its writer may die and have it cut off, and another line put in its
place. The same goes for lines whose call wrote more than is there: of a call, readers see all or nothing.
"""

import asyncio
import os
from collections.abc import AsyncIterator

from holdfast.core.log import chain
from holdfast.core.log.codec import Line, Malformed, parse
from holdfast.store.base import START, Batch, Position
from holdfast.store.files.watch import Watcher

CHUNK = 128 * 1024  # of more, the allocator gives the pages back each time, and the kernel clears them anew
_LOOK = 4096  # bytes at a time, for the end of a line


class FileLog:
    def __init__(self, path: str, watcher: Watcher | None = None) -> None:
        self._path = path
        self._watcher = watcher or Watcher()

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        position, size = after, CHUNK
        with open(self._path, "rb", buffering=0) as file:
            end = _end_of_calls(file.fileno())  # what stands after it may be cut off and replaced during this look
            while chunk := os.pread(file.fileno(), max(0, min(size, end - position)), position):
                cut = chunk.rfind(b"\n") + 1
                if not cut:
                    if len(chunk) < size:  # it was cut off during this look
                        return
                    size *= 2  # one line, longer than this: look further
                    continue
                chunk = chunk[:cut]
                yield Batch(position, chunk)
                position, size = position + cut, CHUNK
                await asyncio.sleep(0)  # a long log does not keep others from the loop

    async def read_back(self, before: Position | None = None) -> AsyncIterator[Batch]:
        with open(self._path, "rb", buffering=0) as file:
            last = _end_of_calls(file.fileno())
            end = last if before is None else min(before, last)
            size = CHUNK
            while end > START:
                start = max(START, end - size)
                chunk = os.pread(file.fileno(), end - start, start)
                if start > START:
                    cut = chunk.find(b"\n") + 1
                    if cut == len(chunk):  # one line, longer than this: look further back
                        size *= 2
                        continue
                    start, chunk = start + cut, chunk[cut:]
                yield Batch(start, chunk)
                end, size = start, CHUNK
                await asyncio.sleep(0)

    async def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        async with self._watcher.changes(self._path) as changed:
            while True:
                changed.clear()  # before the look, so that what comes during it is not missed
                after = min(after, os.path.getsize(self._path))  # what a failed sync left was taken back
                async for batch in self.read(after):
                    after = batch.end
                    yield batch
                await changed.wait()

    async def fragment(self) -> bytes:
        with open(self._path, "rb", buffering=0) as file:
            end = _end_of_calls(file.fileno())
            file.seek(end)
            return file.read()


def last_line(fragment: bytes) -> Line | Malformed | None:
    """What stands after the last whole call, if it is a line that only lacks its newline."""
    if b"\n" in fragment or chain.more_to_come(fragment):
        return Malformed("cut short: what was written with it is not all there")
    return parse(fragment)


def _end_of_calls(fd: int) -> Position:
    """The position after the last line that is ended, and the last of its call."""
    end = _end_of_lines(fd, os.fstat(fd).st_size)
    while chain.more_to_come(os.pread(fd, min(chain.TAIL, end), max(START, end - chain.TAIL))):
        end = _end_of_lines(fd, end - 1)
    return end


def _end_of_lines(fd: int, end: Position) -> Position:
    """The position after the last newline that stands before `end`."""
    while end > START:
        start = max(START, end - _LOOK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return START
