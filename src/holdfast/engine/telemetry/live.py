"""Exports a run while it works, beside it: reads its log as any other reader does, and never makes the run wait.

The log is the queue. What is sent is remembered in the run's folder, with the spans that are open: after a death the
next session goes on there, and ends the spans that the death cut off. The collector may get a span twice, with its id.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from holdfast.core.config.operations import TelemetrySettings
from holdfast.core.telemetry.spans import Span, SpanBuilder, TraceState
from holdfast.engine.home import Home
from holdfast.engine.http_post import PostFailed
from holdfast.engine.telemetry.collector import Collector, Rejected, find_collector, has_packages
from holdfast.leaf.errors import HoldfastError

PROGRESS = "telemetry.json"
_MAX_SPANS = 512  # in one request, and the most that wait in memory
_MAX_UNREAD_BYTES = 16 * 1024 * 1024  # of a log of which nothing was exported: to read it takes time from the run
_INTERVAL_S = 2.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_FLUSH_S = 2.0  # how long the end of a session waits for the last spans


class Progress(msgspec.Struct):
    """What was sent: up to `position`, with the state there. `dropped` counts spans that the collector refused."""

    position: int = 0
    dropped: int = 0
    state: TraceState = msgspec.field(default_factory=TraceState)


class _Sent(NamedTuple):
    spans: list[Span]
    position: int
    state: bytes


class LiveExport:
    """The export of one run, for one session."""

    def __init__(self, home: Home, run_id: str, collector: Collector, *, content: bool) -> None:
        self._home = home
        self._run_id = run_id
        self._collector = collector
        self._path = os.path.join(home.folder(run_id), PROGRESS)
        self._progress = read_progress(self._path)
        if self._progress.position == 0 and home.index.stamp(run_id).size > _MAX_UNREAD_BYTES:
            self._progress.position = home.index.stamp(run_id).size  # `export` has the rest
        self._builder = SpanBuilder(run_id, self._progress.state, content=content)
        self._spans: list[Span] = []
        self._read_to = self._progress.position
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._wake = asyncio.Event()
        self._is_failing = False

    async def run(self, stop: asyncio.Event) -> None:
        """Export until `stop` is set, then what is left, for a moment."""
        with suppress(HoldfastError, OSError):
            await asyncio.to_thread(_load_encoder)
            reading = asyncio.create_task(self._read())
            sending = asyncio.create_task(self._send())
            try:
                await stop.wait()
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            await self._flush()

    async def _flush(self) -> None:
        """Send the rest, unless the collector did not answer before: nobody waits for it then."""
        if self._is_failing:
            return
        with suppress(TimeoutError, PostFailed, Rejected):
            async with asyncio.timeout(_FLUSH_S):
                async for batch in self._home.store.log(self._run_id).read(self._read_to):
                    self._take(batch.data, batch.end)
                    if len(self._spans) >= _MAX_SPANS:
                        await self._send_batch()
                await self._send_batch()

    async def _read(self) -> None:
        batches = self._home.store.log(self._run_id).follow(self._read_to)
        async with aclosing(batches):  # type: ignore[type-var]
            async for batch in batches:
                await self._has_room.wait()
                if batch.end > self._read_to:
                    self._take(batch.data, batch.end)
                    await asyncio.sleep(0)

    def _take(self, data: bytes, end: int) -> None:
        self._spans += self._builder.feed(data)
        self._read_to = end
        if len(self._spans) >= _MAX_SPANS:
            self._has_room.clear()
            self._wake.set()

    async def _send(self) -> None:
        delay_s = _FIRST_RETRY_S
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _INTERVAL_S)
            self._wake.clear()
            try:
                await self._send_batch()
                self._is_failing, delay_s = False, _FIRST_RETRY_S
            except PostFailed:
                self._is_failing = True
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_RETRY_S)

    async def _send_batch(self) -> None:
        """Send what was read, and remember that. Nothing is lost if it fails: it stays in memory and in the log."""
        spans, position = list(self._spans), self._read_to
        if position == self._progress.position:
            return
        from holdfast.engine.telemetry.otlp import encode_spans, encode_usage  # noqa: PLC0415 - only if it is used

        state = msgspec.json.encode(self._builder.state)
        usage = encode_usage(self._run_id, self._builder.state) if self._builder.state.usage else None
        dropped = 0
        try:
            if spans:
                await self._collector.send_traces(encode_spans(self._builder.trace_id, spans))
            if usage is not None:
                await self._collector.send_metrics(usage)
        except Rejected:
            dropped = len(spans)
        del self._spans[: len(spans)]
        self._has_room.set()
        known = self._progress
        self._progress = Progress(position, known.dropped + dropped, msgspec.json.decode(state, type=TraceState))
        with suppress(OSError):  # then the next session sends some spans again
            _write_progress(self._path, self._progress)


def read_progress(path: str) -> Progress:
    """Return what was sent; nothing if that is unknown: then it is sent again, with the same ids."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Progress)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Progress()


def _write_progress(path: str, progress: Progress) -> None:
    """Not synced: after a power cut an older one is found, and some spans are sent again."""
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(msgspec.json.encode(progress))
    os.replace(temporary, path)


def missing_packages(settings: TelemetrySettings) -> str | None:
    """A warning that nothing is exported although the settings say so."""
    if not settings.enabled or has_packages():
        return None
    return "telemetry.enabled is set, but nothing is exported: install the packages with: pip install 'holdfast[otel]'"


def _load_encoder() -> None:
    import holdfast.engine.telemetry.otlp  # noqa: F401, PLC0415 - takes long, so it is not done on the run's time


@asynccontextmanager
async def exporting(home: Home, run_id: str, settings: TelemetrySettings) -> AsyncIterator[None]:
    """Export what is recorded meanwhile, if the settings say so."""
    if not settings.enabled or not has_packages():
        yield
        return
    stop = asyncio.Event()
    export = LiveExport(home, run_id, find_collector(settings), content=settings.content)
    running = asyncio.create_task(export.run(stop))
    try:
        yield
    finally:
        stop.set()
        try:
            await asyncio.wait({running})
        finally:
            running.cancel()
