"""A page of a run's log, by position: never more than a bounded part of the log is read for one page."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.log.codec import Line
from holdfast.core.state import Rewind
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import LogFilter, LogLine, parse_batch
from holdfast.store.base import START, Batch, Position
from holdfast.store.live_log import LiveLog

__all__ = ["Batch", "EventPage", "PageRequest", "Position", "event_page"]

MAX_PAGE_LINES = 500
MAX_PAGE_BYTES = 384 * 1024  # of the lines on a page; one line may be longer
MAX_SCANNED_BYTES = 8 * 1024 * 1024  # for one page of a filter that fits few lines


class PageRequest(NamedTuple):
    """Which lines. Without `before` and `after`: the newest."""

    before: Position | None = None
    after: Position | None = None
    limit: int = 200
    conversation: str | None = None
    types: tuple[str, ...] = ()


class EventPage(NamedTuple):
    """The lines between two positions that fit. There may be more of them beyond, when the page is full."""

    start: Position
    end: Position
    has_older: bool
    has_newer: bool
    lines: list[LogLine]


class _About(msgspec.Struct):
    conversation: str | None = None


async def event_page(home: Home, run_id: str, request: PageRequest, rewinds: Sequence[Rewind] = ()) -> EventPage:
    """Return a page. Lines that a rewind of `rewinds` abandoned are left out."""
    limit = max(1, min(request.limit, MAX_PAGE_LINES))
    log = LiveLog(home.store.log(run_id), rewinds) if rewinds else home.store.log(run_id)
    reader = _Page(request, limit)
    if request.after is not None:
        return await reader.forward(log.read(request.after), request.after)
    return await reader.backward(log.read_backwards(request.before), request.before)


class _Page:
    def __init__(self, request: PageRequest, limit: int) -> None:
        self._filter = LogFilter(request.types)
        self._conversation = request.conversation
        self._mark = f'"{request.conversation}"'.encode() if request.conversation is not None else b""
        self._limit = limit
        self._bytes = 0
        self.found: list[LogLine] = []

    async def forward(self, batches: object, start: Position) -> EventPage:
        end, scanned = start, 0
        async for batch in batches:  # type: ignore[attr-defined]
            for line in self._lines_of(batch):
                if self._is_full(line):
                    return EventPage(start, line.cursor - len(line.raw) - 1, start > START, True, self.found)
                self._add(line)
            end, scanned = batch.end, scanned + len(batch.data)
            if scanned >= MAX_SCANNED_BYTES:
                return EventPage(start, end, start > START, True, self.found)
        return EventPage(start, end, start > START, False, self.found)

    async def backward(self, batches: object, before: Position | None) -> EventPage:
        start, scanned = before if before is not None else START, 0
        end = start
        async for batch in batches:  # type: ignore[attr-defined]
            end = max(end, batch.end)
            for line in reversed(self._lines_of(batch)):
                if self._is_full(line):
                    return self._reversed(line.cursor, end, before)
                self._add(line)
            start, scanned = batch.start, scanned + len(batch.data)
            if scanned >= MAX_SCANNED_BYTES:
                break
        return self._reversed(start, end, before)

    def _reversed(self, start: Position, end: Position, before: Position | None) -> EventPage:
        self.found.reverse()
        return EventPage(start, end, start > START, before is not None, self.found)

    def _lines_of(self, batch: Batch) -> list[LogLine]:
        if self._mark and self._mark not in batch.data:
            return []
        return [line for line in parse_batch(batch, self._filter) if self._fits(line)]

    def _fits(self, line: LogLine) -> bool:
        if self._conversation is None:
            return True
        if self._mark not in line.raw or not isinstance(line.line, Line):
            return False
        try:
            return msgspec.json.decode(line.line.data, type=_About).conversation == self._conversation
        except (msgspec.DecodeError, UnicodeError):
            return False

    def _is_full(self, line: LogLine) -> bool:
        return bool(self.found) and (len(self.found) >= self._limit or self._bytes + len(line.raw) > MAX_PAGE_BYTES)

    def _add(self, line: LogLine) -> None:
        self.found.append(line)
        self._bytes += len(line.raw)
