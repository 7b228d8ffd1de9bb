"""Shows the events of a run one after the other: as JSON, or as lines of text."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from enum import StrEnum
from typing import Any

from holdfast.app.cli.live.async_writer import AsyncWriter, ReaderGone
from holdfast.app.text.log_lines import describe_line
from holdfast.app.text.screen import shorten_to_width
from holdfast.app.text.spans import pad_to_width
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import Line
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower, RunUpdate
from holdfast.engine.queries.logs import LogLine

_CLOSE_TIMEOUT_S = 0.5  # how long closing waits for a stopped terminal
_SUBJECT_COLUMNS = 12
_DETAIL_LINES = 40


class OutputStyle(StrEnum):
    JSON = "json"  # the lines of the log, unchanged, on stdout
    PLAIN = "plain"  # one line of text per event, on stderr
    RICH = "rich"  # the same, with a live area below
    QUIET = "quiet"  # only errors, and requests for which the run waits


class LineView:
    """A view of a running run. What a terminal has in addition is in RichView."""

    def __init__(self, home: Home, run_id: str, follower: Follower, style: OutputStyle) -> None:
        self.home = home
        self.run_id = run_id
        self.follower = follower
        self.style = style
        self.writer = AsyncWriter((sys.stdout if style is OutputStyle.JSON else sys.stderr).fileno())
        self.lock = asyncio.Lock()

    async def follow(self, notices: "asyncio.Queue[str] | None" = None) -> None:
        """Show events until the end of the session was shown, or the reader is gone."""
        parts: list[Coroutine[Any, Any, None]] = [self.show_all()]
        if notices is not None:
            parts.append(self._show_notices(notices))
        parts += self.other_parts()
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with suppress(ReaderGone):
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def other_parts(self) -> list[Coroutine[Any, Any, None]]:
        """Return what else is shown meanwhile."""
        return []

    async def catch_up(self) -> None:
        """Show the events that are already written, without waiting for more."""
        with suppress(ReaderGone):
            async with aclosing(self.follower.pending_updates()) as updates:
                async for update in updates:
                    await self._show(update)

    async def print_lines(self, *lines: str) -> None:
        """Print lines that are not from the log."""
        with suppress(ReaderGone):
            if self.style is not OutputStyle.JSON:
                await self.print(list(lines))

    async def close(self) -> None:
        """Write what comes last. A stopped terminal is not waited for."""
        with suppress(ReaderGone, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self.writer.write(self.last_text())
        self.writer.close()

    def last_text(self) -> str:
        return ""

    async def show_all(self) -> None:
        await self.show_updates()

    async def show_updates(self) -> None:
        async with aclosing(self.follower.updates()) as updates:
            async for update in updates:
                if await self._show(update):
                    return

    async def _show(self, update: RunUpdate) -> bool:
        """Show an update; return whether the session ended with it."""
        shown, ended = [], False
        for line in update.lines:
            shown.append(line)
            if isinstance(line.line, Line) and line.line.type == SessionEnd.type:
                ended = True
                break
        await self.show_lines(shown, update.state)
        return ended

    async def show_lines(self, lines: list[LogLine], state: RunState) -> None:
        if self.style is OutputStyle.JSON:
            await self.writer.write(b"".join(line.raw + b"\n" for line in lines if isinstance(line.line, Line)))
        else:
            await self.print([text for line in lines for text in self.lines_of(line, state)])

    def lines_of(self, log_line: LogLine, state: RunState, width: int | None = None) -> list[str]:
        """Return one line, followed by the details of a request."""
        line = describe_line(log_line, state)
        if line is None:
            return []
        if self.style is OutputStyle.QUIET and not line.is_error and line.request not in state.permissions:
            return []
        head, subject, text = f"{line.time:8}  ", f"{pad_to_width(line.subject, _SUBJECT_COLUMNS)}  ", line.text
        if width is not None:
            text = shorten_to_width(text, max(10, width - len(head) - _SUBJECT_COLUMNS - 3))
        elif line.request in state.permissions:
            text += f"; answer with: holdfast approve {self.run_id} {line.request}, or deny"
        first = self.paint(head, "dim") + self.paint(subject, "bold") + self.paint(text, line.colour)
        indent = " " * (len(head) + _SUBJECT_COLUMNS + 2)
        details = cut_lines(line.detail, _DETAIL_LINES, f"holdfast show {self.run_id} --json has all of it")
        return [first, *(f"{indent}{detail}" for detail in details)]

    async def _show_notices(self, notices: "asyncio.Queue[str]") -> None:
        while True:
            await self.print_lines(await notices.get())

    async def print(self, lines: list[str]) -> None:
        async with self.lock:
            if lines:
                await self.writer.write("".join(f"{line}\n" for line in lines))

    def paint(self, text: str, colour: str | None) -> str:
        del colour  # only on a terminal
        return text
