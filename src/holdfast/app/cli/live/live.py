"""Shows a running run: as JSON, as lines of text, or as lines with a live area below them.

It only reads the log. A view that fails or closes does not affect the run.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import aclosing, suppress
from enum import StrEnum

from holdfast.app.cli.live.async_writer import AsyncWriter, ReaderGone
from holdfast.app.cli.live.request_keys import RequestKeys
from holdfast.app.cli.live.terminal_keys import TerminalKeys, reads_keys
from holdfast.app.text.live_area import Extras, live_rows
from holdfast.app.text.log_lines import describe_line
from holdfast.app.text.screen import ANSI_CODES, display_width, shorten_to_width, warn
from holdfast.app.text.spans import Row, pad_to_width, row_text
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.conversation.live_text import LiveText
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import Line
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower, RunUpdate
from holdfast.engine.queries.live.live_text import events_in, live_text
from holdfast.engine.queries.logs import LogLine
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError

_REFRESH_S = 1.0  # how often the times in the live area are updated
_MIN_TEXT_INTERVAL_S = 0.03  # between two updates of what agents are saying
_CLOSE_TIMEOUT_S = 0.5  # how long closing waits for a stopped terminal
_SUBJECT_COLUMNS = 12
_DETAIL_LINES = 40


class OutputStyle(StrEnum):
    JSON = "json"  # the lines of the log, unchanged, on stdout
    PLAIN = "plain"  # one line of text per event, on stderr
    RICH = "rich"  # the same, with a live area below
    QUIET = "quiet"  # only errors, and requests for which the run waits


def choose_style(options: argparse.Namespace) -> OutputStyle:
    """Return the style for the options and the terminal."""
    if options.json:
        return OutputStyle.JSON
    if getattr(options, "quiet", False):
        return OutputStyle.QUIET
    return OutputStyle.RICH if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" else OutputStyle.PLAIN


async def show_run(
    home: Home,
    run_id: str,
    *,
    style: OutputStyle,
    after: int | None = None,
    notices: "asyncio.Queue[str] | None" = None,
) -> None:
    """Show events after a position (default: from now on), until the session ends or this is cancelled.

    `notices` are lines from other code to print among the events: only the view may write to the screen meanwhile.
    An error here ends the view and nothing else.
    """
    try:
        view = LiveView(home, run_id, await Follower.create(home, run_id, after), style)
        try:
            await view.follow(notices)
        finally:
            await view.close()
    except (HoldfastError, OSError) as error:
        with suppress(OSError):
            warn([f"the run continues, but cannot be shown: {error}"])


class LiveView:
    def __init__(self, home: Home, run_id: str, follower: Follower, style: OutputStyle) -> None:
        self._home = home
        self._run_id = run_id
        self._follower = follower
        self._style = style
        self._writer = AsyncWriter((sys.stdout if style is OutputStyle.JSON else sys.stderr).fileno())
        self._area_rows: list[Row] = []
        self._text = LiveText()  # what agents are saying
        self._has_new_text = asyncio.Event()
        self._uses_colour = os.isatty(self._writer.fd) and not os.environ.get("NO_COLOR") and style is OutputStyle.RICH
        self._lock = asyncio.Lock()
        has_keys = style is OutputStyle.RICH and reads_keys()
        self._keys = TerminalKeys(sys.stdin.fileno()) if has_keys else None
        self._requests = RequestKeys(home, run_id)
        self._asked: str | None = None  # the request that the keys answer now

    async def follow(self, notices: "asyncio.Queue[str] | None" = None) -> None:
        """Show events until the end of the session was shown, or the reader is gone."""
        parts = [self._show_all()]
        if notices is not None:
            parts.append(self._show_notices(notices))
        if self._style is OutputStyle.RICH:
            parts += [self._refresh_periodically(), self._show_new_text()]
        if self._keys is not None:
            parts.append(self._answer_requests(self._keys))
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

    async def catch_up(self) -> None:
        """Show the events that are already written, without waiting for more."""
        with suppress(ReaderGone):
            async with aclosing(self._follower.pending_updates()) as updates:
                async for update in updates:
                    await self._show(update)

    async def print_lines(self, *lines: str) -> None:
        """Print lines that are not from the log."""
        with suppress(ReaderGone):
            if self._style is not OutputStyle.JSON:
                await self._print(list(lines))

    async def close(self) -> None:
        """Clear the live area, so that later output follows the last line, and restore the terminal."""
        if self._keys is not None:
            self._keys.disable()
        with suppress(ReaderGone, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._writer.write(f"{self._cursor_to_area()}\x1b[J" if self._area_rows else "")
        self._writer.close()

    async def _show_all(self) -> None:
        if self._style is not OutputStyle.RICH:
            await self._show_updates()
            return
        await self._print([])
        self._text = await self._follower.open_text()
        receiver = asyncio.create_task(self._receive_text())
        try:
            await self._show_updates()
        finally:
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)

    async def _show_updates(self) -> None:
        async with aclosing(self._follower.updates()) as updates:
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
        if self._style is OutputStyle.JSON:
            await self._writer.write(b"".join(line.raw + b"\n" for line in shown if isinstance(line.line, Line)))
        else:
            width = self._size().columns if self._style is OutputStyle.RICH else None
            for event in events_in(shown) if self._style is OutputStyle.RICH else ():
                self._text.record(event)
            await self._print([text for line in shown for text in self._lines(line, update.state, width)])
            await self._ask_for_keys()
        return ended

    def _lines(self, log_line: LogLine, state: RunState, width: int | None) -> list[str]:
        """Return one line, followed by the details of a request."""
        line = describe_line(log_line, state)
        if line is None:
            return []
        if self._style is OutputStyle.QUIET and not line.is_error and line.request not in state.permissions:
            return []
        head, subject, text = f"{line.time:8}  ", f"{pad_to_width(line.subject, _SUBJECT_COLUMNS)}  ", line.text
        if width is not None:
            text = shorten_to_width(text, max(10, width - len(head) - _SUBJECT_COLUMNS - 3))
        elif line.request in state.permissions:
            text += f"; answer with: holdfast approve {self._run_id} {line.request}, or deny"
        first = self._paint(head, "dim") + self._paint(subject, "bold") + self._paint(text, line.colour)
        indent = " " * (len(head) + _SUBJECT_COLUMNS + 2)
        details = cut_lines(line.detail, _DETAIL_LINES, f"holdfast show {self._run_id} --json has all of it")
        return [first, *(f"{indent}{detail}" for detail in details)]

    async def _answer_requests(self, keys: TerminalKeys) -> None:
        await self._ask_for_keys()
        while True:
            message = await self._requests.answer(self._follower.state, await keys.next())
            await self.print_lines(*([message] if message is not None else []))
            await self._ask_for_keys()

    async def _ask_for_keys(self) -> None:
        """Read keys while a request waits for an answer.

        Keys that were pressed before the request was shown are discarded, and only then the keys are named.
        """
        if self._keys is None:
            return
        need = self._requests.current(self._follower.state)
        asked = need.key if need is not None else None
        if asked is None:
            self._keys.disable()
        else:
            if asked != self._asked:
                self._keys.discard()
            self._keys.enable()
        if asked != self._asked:
            self._asked = asked
            await self._print([])

    async def _show_notices(self, notices: "asyncio.Queue[str]") -> None:
        while True:
            await self.print_lines(await notices.get())

    async def _receive_text(self) -> None:
        """Collect what agents say before it is in the log. Without it, only the log is shown."""
        async with aclosing(live_text(self._home, self._run_id)) as hints:
            async for hint in hints:
                if self._text.add(hint):
                    self._has_new_text.set()

    async def _show_new_text(self) -> None:
        while True:
            await self._has_new_text.wait()
            self._has_new_text.clear()
            await self._print([])
            await asyncio.sleep(_MIN_TEXT_INTERVAL_S)

    async def _refresh_periodically(self) -> None:
        """Redraw the live area: the times change, and the terminal may be resized."""
        loop, resized = asyncio.get_running_loop(), asyncio.Event()
        with suppress(ValueError, RuntimeError):  # only the main thread gets signals
            loop.add_signal_handler(signal.SIGWINCH, resized.set)
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(resized.wait(), _REFRESH_S)
                resized.clear()
                await self._print([])
                await self._ask_for_keys()  # again: the run may have come to the foreground
        finally:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGWINCH)

    async def _print(self, lines: list[str]) -> None:
        """Write the lines and redraw the live area below them, in one write."""
        async with self._lock:
            if self._style is not OutputStyle.RICH:
                if lines:
                    await self._writer.write("".join(f"{line}\n" for line in lines))
                return
            size = self._size()
            back = self._cursor_to_area()
            state = self._follower.state
            hints = self._requests.hints(state) if self._keys is not None and self._keys.is_enabled else {}
            self._area_rows = live_rows(
                state, self._run_id, now(), size.columns, size.lines, Extras(self._text.open_texts(), hints)
            )
            drawn = [self._paint_row(row) for row in self._area_rows]
            await self._writer.write(back + "".join(f"{line}\x1b[K\n" for line in (*lines, *drawn)) + "\x1b[J")

    def _cursor_to_area(self) -> str:
        """Return the escape sequence to the start of the area, whose rows may have wrapped in a narrower terminal."""
        width = max(1, self._size().columns)
        rows = sum(max(1, -(-display_width(row_text(row)) // width)) for row in self._area_rows)
        self._area_rows = []
        return f"\x1b[{rows}F" if rows else ""

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._writer.fd)
        except OSError:
            return os.terminal_size((80, 24))
        return os.terminal_size((max(20, size.columns or 80), max(4, size.lines or 24)))

    def _paint_row(self, row: Row) -> str:
        return "".join(self._paint(span.text, span.colour) for span in row)

    def _paint(self, text: str, colour: str | None) -> str:
        return f"\x1b[{ANSI_CODES[colour]}m{text}\x1b[0m" if colour is not None and self._uses_colour else text
