"""A run at work, on the screen: as JSON, as lines of words, or with an area at the bottom that shows where it stands.

It only reads the log. Whatever becomes of the screen, the run goes on.
"""

import argparse
import asyncio
import os
import signal
import sys
from contextlib import aclosing, suppress
from enum import StrEnum

from holdfast.app.cli.live.async_writer import Gone, Pen
from holdfast.app.text.live_area import area
from holdfast.app.text.log_lines import told_line
from holdfast.app.text.screen import CODES, columns_of, shortened, warn
from holdfast.app.text.spans import Row, padded, text_of
from holdfast.core.conversation.call_text import cut
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import Line
from holdfast.core.state import RunState
from holdfast.engine.queries.follow import Follower, Moved
from holdfast.engine.queries.logs import LogLine
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError

_TICK = 1.0  # seconds: how often the times in the area are renewed
_LAST_WORD = 0.5  # seconds that the end of a view waits for a screen that does not move
_SUBJECT = 12  # columns
_DETAIL_LINES = 40


class Style(StrEnum):
    JSON = "json"  # each line of the log as it stands, on stdout
    PLAIN = "plain"  # words, a line each, on stderr
    RICH = "rich"  # the same, and an area that is drawn anew
    QUIET = "quiet"  # only what went wrong


def style_of(options: argparse.Namespace) -> Style:
    """What fits the options and the terminal."""
    if options.json:
        return Style.JSON
    if getattr(options, "quiet", False):
        return Style.QUIET
    return Style.RICH if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" else Style.PLAIN


async def watch(
    home: str,
    run_id: str,
    *,
    style: Style,
    after: int | None = None,
    notices: "asyncio.Queue[str] | None" = None,
) -> None:
    """Show what is written after a position (by default: from now on), until the sitting ends or this is cancelled.

    `notices` are words from elsewhere that belong among the lines: nobody else should write to the screen meanwhile.
    What goes wrong here ends the view and nothing else.
    """
    try:
        view = View(run_id, await Follower.of(home, run_id, after), style)
        try:
            await view.follow(notices)
        finally:
            await view.leave()
    except (HoldfastError, OSError) as error:
        with suppress(OSError):
            warn([f"the run goes on, but cannot be shown: {error}"])


class View:
    def __init__(self, run_id: str, follower: Follower, style: Style) -> None:
        self._run_id = run_id
        self._follower = follower
        self._style = style
        self._pen = Pen((sys.stdout if style is Style.JSON else sys.stderr).fileno())
        self._drawn: list[Row] = []
        self._colourful = os.isatty(self._pen.fd) and not os.environ.get("NO_COLOR") and style is Style.RICH
        self._lock = asyncio.Lock()

    async def follow(self, notices: "asyncio.Queue[str] | None" = None) -> None:
        """Until the sitting's end was shown, or nobody looks any more."""
        parts = [self._show_all()]
        if notices is not None:
            parts.append(self._show_notices(notices))
        if self._style is Style.RICH:
            parts.append(self._keep_fresh())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with suppress(Gone):
                for one in done:
                    one.result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def catch_up(self) -> None:
        """Show what is written already, and wait for nothing more."""
        with suppress(Gone):
            async with aclosing(self._follower.rest()) as moves:
                async for moved in moves:
                    await self._show(moved)

    async def say(self, *lines: str) -> None:
        """Words among the lines, not from the log."""
        with suppress(Gone):
            if self._style is not Style.JSON:
                await self._print(list(lines))

    async def leave(self) -> None:
        """Take the area away, so that what comes next stands under the last line, which is written by then."""
        with suppress(Gone, TimeoutError):
            async with asyncio.timeout(_LAST_WORD):
                await self._pen.write(f"{self._back()}\x1b[J" if self._drawn else "")
        self._pen.put_down()

    async def _show_all(self) -> None:
        if self._style is Style.RICH:
            await self._print([])
        async with aclosing(self._follower.moves()) as moves:
            async for moved in moves:
                if await self._show(moved):
                    return

    async def _show(self, moved: Moved) -> bool:
        """True when the sitting ended with it."""
        shown, ended = [], False
        for one in moved.lines:
            shown.append(one)
            if isinstance(one.line, Line) and one.line.type == SessionEnd.type:
                ended = True
                break
        if self._style is Style.JSON:
            await self._pen.write(b"".join(one.raw + b"\n" for one in shown if isinstance(one.line, Line)))
        else:
            width = self._size().columns if self._style is Style.RICH else None
            await self._print([line for one in shown for line in self._lines(one, moved.state, width)])
        return ended

    def _lines(self, one: LogLine, state: RunState, width: int | None) -> list[str]:
        """One line; and, of what a person is asked, all that is known of it below."""
        line = told_line(one, state)
        if line is None or (self._style is Style.QUIET and not line.bad):
            return []
        head, who, words = f"{line.time:8}  ", f"{padded(line.who, _SUBJECT)}  ", line.words
        if width is not None:
            words = shortened(words, max(10, width - len(head) - _SUBJECT - 3))
        told = self._paint(head, "dim") + self._paint(who, "bold") + self._paint(words, line.colour)
        indent = " " * (len(head) + _SUBJECT + 2)
        below = cut(line.detail, _DETAIL_LINES, f"holdfast show {self._run_id} --json has all of it")
        return [told, *(f"{indent}{one}" for one in below)]

    async def _show_notices(self, notices: "asyncio.Queue[str]") -> None:
        while True:
            await self.say(await notices.get())

    async def _keep_fresh(self) -> None:
        """The times go on, and the terminal may change its size."""
        loop, resized = asyncio.get_running_loop(), asyncio.Event()
        with suppress(ValueError, RuntimeError):  # only the main thread is told
            loop.add_signal_handler(signal.SIGWINCH, resized.set)
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(resized.wait(), _TICK)
                resized.clear()
                await self._print([])
        finally:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGWINCH)

    async def _print(self, lines: list[str]) -> None:
        """Lines above, the area below them, in one go."""
        async with self._lock:
            if self._style is not Style.RICH:
                if lines:
                    await self._pen.write("".join(f"{line}\n" for line in lines))
                return
            size = self._size()
            back = self._back()
            self._drawn = area(self._follower.state, self._run_id, now(), size.columns, size.lines)
            drawn = [self._painted(row) for row in self._drawn]
            await self._pen.write(back + "".join(f"{line}\x1b[K\n" for line in (*lines, *drawn)) + "\x1b[J")

    def _back(self) -> str:
        """To where the area began. In a terminal that became narrower, its rows have become more."""
        width = max(1, self._size().columns)
        rows = sum(max(1, -(-columns_of(text_of(row)) // width)) for row in self._drawn)
        self._drawn = []
        return f"\x1b[{rows}F" if rows else ""

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._pen.fd)
        except OSError:
            return os.terminal_size((80, 24))
        return os.terminal_size((max(20, size.columns or 80), max(4, size.lines or 24)))

    def _painted(self, row: Row) -> str:
        return "".join(self._paint(span.text, span.colour) for span in row)

    def _paint(self, text: str, colour: str | None) -> str:
        return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if colour is not None and self._colourful else text
