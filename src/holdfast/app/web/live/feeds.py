"""What is written to the runs that clients look at: each log is read and encoded once, for all of its viewers.

A viewer keeps only a position. It takes what comes after it from the newest chunks in memory, or from the log when it
was slow; so no viewer makes the server keep anything for it, and none misses or repeats a line.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from holdfast.app.web.live.lines import encode_line
from holdfast.core.conversation.live_text import Hint
from holdfast.core.events.rewind import RunRewound
from holdfast.engine.home import Home
from holdfast.engine.queries.event_page import Batch, Position
from holdfast.engine.queries.live.live_text import live_text
from holdfast.engine.queries.logs import LogLine, end_of_log, parse_batch
from holdfast.leaf.errors import HoldfastError

MAX_CHUNK_BYTES = 64 * 1024
_MAX_KEPT_BYTES = 1024 * 1024  # of the newest lines of one run
_REWOUND = f'"{RunRewound.type}"'.encode()


class Chunk(NamedTuple):
    """`size` encoded lines that follow each other, joined by commas. `rewound`: one of them abandons earlier lines."""

    start: Position
    end: Position
    lines: bytes
    size: int
    rewound: bool


class Viewer(NamedTuple):
    """Callbacks of one client: something was written, an agent said something, the run is gone."""

    written: Callable[[], None]
    said: Callable[[str, Hint], None]
    gone: Callable[[str], None]


class RunFeed:
    """The newest lines of one run, while it has viewers."""

    def __init__(self, home: Home, run_id: str) -> None:
        self._home = home
        self._run_id = run_id
        self._chunks: deque[Chunk] = deque()
        self._kept_bytes = 0
        self.viewers: set[Viewer] = set()
        self.end: Position | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._listen())]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def next_chunk(self, after: Position) -> Chunk | None:
        """Return lines after a position; None when there are none yet."""
        if self.end is not None and after >= self.end:
            return None
        for chunk in reversed(self._chunks):
            if chunk.start == after:
                return chunk
            if chunk.start < after:
                break
        async for batch in self._home.store.log(self._run_id).read(after):
            return next(iter(chunks_of(batch)), None)
        return None

    async def _follow(self) -> None:
        try:
            start = await end_of_log(self._home, self._run_id)
            self.end = start
            self._wake()
            async for batch in self._home.store.log(self._run_id).follow(start):
                for chunk in chunks_of(batch):
                    self._keep(chunk)
                self.end = batch.end
                self._wake()
        except (HoldfastError, OSError):
            pass
        for viewer in tuple(self.viewers):
            viewer.gone(self._run_id)

    async def _listen(self) -> None:
        with suppress(HoldfastError, OSError):
            async for hint in live_text(self._home, self._run_id):
                for viewer in tuple(self.viewers):
                    viewer.said(self._run_id, hint)

    def _keep(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._kept_bytes += len(chunk.lines)
        while self._kept_bytes > _MAX_KEPT_BYTES and len(self._chunks) > 1:
            self._kept_bytes -= len(self._chunks.popleft().lines)

    def _wake(self) -> None:
        for viewer in tuple(self.viewers):
            viewer.written()


class RunFeeds:
    """The feeds of all runs that somebody looks at."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._feeds: dict[str, RunFeed] = {}

    @property
    def viewer_count(self) -> int:
        return sum(len(feed.viewers) for feed in self._feeds.values())

    def open(self, run_id: str, viewer: Viewer) -> RunFeed:
        feed = self._feeds.get(run_id)
        if feed is None:
            feed = self._feeds[run_id] = RunFeed(self._home, run_id)
            feed.start()
        feed.viewers.add(viewer)
        return feed

    def close(self, run_id: str, viewer: Viewer) -> None:
        feed = self._feeds.get(run_id)
        if feed is None:
            return
        feed.viewers.discard(viewer)
        if not feed.viewers:
            del self._feeds[run_id]
            feed.stop()


def chunks_of(batch: Batch) -> list[Chunk]:
    """Split a batch into chunks that are not longer than they have to be."""
    found: list[Chunk] = []
    start, size, lines = batch.start, 0, list[LogLine]()
    for line in parse_batch(batch):
        lines.append(line)
        size += len(line.raw)
        if size >= MAX_CHUNK_BYTES:
            found.append(_chunk(start, line.cursor, lines))
            start, size, lines = line.cursor, 0, []
    if lines or start < batch.end:
        found.append(_chunk(start, batch.end, lines))
    return found


def _chunk(start: Position, end: Position, lines: list[LogLine]) -> Chunk:
    encoded = b",".join(map(encode_line, lines))
    return Chunk(start, end, encoded, len(lines), any(_REWOUND in line.raw for line in lines))
