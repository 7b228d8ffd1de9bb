"""A log without its abandoned parts: what every reader of a run's past sees after a rewind."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from holdfast.core.events.rewind import RewindAxis, RunRewound
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.rewind import live_ranges
from holdfast.core.state import Rewind
from holdfast.store.base import START, Batch, Log, Position

_MARK = f'"{RunRewound.type}"'.encode()


class LiveLog:
    """Reads the parts of a log that count. Positions are those of the whole log."""

    def __init__(self, log: Log, rewinds: Sequence[Rewind]) -> None:
        self._log = log
        self._ranges = live_ranges(rewinds, sys.maxsize)

    async def read(self, after: Position = START) -> AsyncIterator[Batch]:
        for start, end in self._ranges:
            if after >= end:
                continue
            async for batch in self._log.read(max(after, start)):
                if batch.start >= end:
                    break
                yield Batch(batch.start, batch.data[: end - batch.start])
                if batch.end >= end:
                    break

    async def read_backwards(self, before: Position | None = None) -> AsyncIterator[Batch]:
        last = sys.maxsize if before is None else before
        for start, end in reversed(self._ranges):
            if start >= last:
                continue
            until = min(end, last)
            async for batch in self._log.read_backwards(None if until == sys.maxsize else until):
                cut = max(0, start - batch.start)
                if cut < len(batch.data):
                    yield Batch(batch.start + cut, batch.data[cut:])
                if batch.start <= start:
                    break

    async def follow(self, after: Position = START) -> AsyncIterator[Batch]:
        batches = self._log.follow(after)
        assert isinstance(batches, AsyncGenerator)
        async with aclosing(batches):
            async for batch in batches:
                for start, end in self._ranges:
                    first, last = max(start, batch.start), min(end, batch.end)
                    if first < last:
                        yield Batch(first, batch.data[first - batch.start : last - batch.start])

    async def torn_tail(self) -> bytes:
        return await self._log.torn_tail()


async def live_log(log: Log) -> Log:
    """Return the log without what is abandoned now."""
    rewinds = await find_rewinds(log)
    return LiveLog(log, rewinds) if rewinds else log


async def find_rewinds(log: Log, after: Position = START) -> list[Rewind]:
    """Return the rewinds after a position that abandon events, in the order of the log. Decodes only those."""
    found: list[Rewind] = []
    async for batch in log.read(after):
        if _MARK in batch.data:
            found += rewinds_in(batch)
    return found


def rewinds_in(batch: Batch) -> list[Rewind]:
    found: list[Rewind] = []
    position = batch.start
    for raw in batch.data.split(b"\n"):
        event = _rewind_of(raw) if _MARK in raw else None
        if event is not None and event.only != RewindAxis.FILES and event.position < event.at == position:
            found.append(Rewind(event.at, event.position))
        position += len(raw) + 1
    return found


def _rewind_of(raw: bytes) -> RunRewound | None:
    line = parse(raw)
    if not isinstance(line, Line) or line.type != RunRewound.type:
        return None
    try:
        event = CODEC.event(line)
    except InvalidEventData:
        return None
    return event if isinstance(event, RunRewound) else None
