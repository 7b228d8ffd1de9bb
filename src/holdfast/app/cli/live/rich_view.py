"""Shows a running run on a terminal: events as lines, a live area below them, and keys that answer requests."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import Any

from holdfast.app.cli.live.line_view import LineView, OutputStyle
from holdfast.app.cli.live.request_keys import RequestKeys
from holdfast.app.cli.live.terminal_keys import TerminalKeys, reads_keys
from holdfast.app.text.live_area import Extras, live_rows
from holdfast.app.text.screen import ANSI_CODES, display_width
from holdfast.app.text.spans import Row, row_text
from holdfast.core.conversation.live_text import LiveText
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower
from holdfast.engine.queries.live.live_text import events_in, live_text
from holdfast.engine.queries.logs import LogLine
from holdfast.leaf.clock import now

_REFRESH_S = 1.0  # how often the times in the live area are updated
_MIN_TEXT_INTERVAL_S = 0.03  # between two updates of what agents are saying


class RichView(LineView):
    def __init__(self, home: Home, run_id: str, follower: Follower, style: OutputStyle) -> None:
        super().__init__(home, run_id, follower, style)
        self._area_rows: list[Row] = []
        self._text = LiveText()  # what agents are saying
        self._has_new_text = asyncio.Event()
        self._uses_colour = os.isatty(self.writer.fd) and not os.environ.get("NO_COLOR")
        self._keys = TerminalKeys(sys.stdin.fileno()) if reads_keys() else None
        self._requests = RequestKeys(home, run_id)
        self._asked: str | None = None  # the request that the keys answer now

    def other_parts(self) -> list[Coroutine[Any, Any, None]]:
        answers = [self._answer_requests(self._keys)] if self._keys is not None else []
        return [self._refresh_periodically(), self._show_new_text(), *answers]

    async def close(self) -> None:
        """Restore the terminal, too."""
        if self._keys is not None:
            self._keys.disable()
        await super().close()

    def last_text(self) -> str:
        """Clear the live area, so that later output follows the last line."""
        return f"{self._cursor_to_area()}\x1b[J" if self._area_rows else ""

    async def show_all(self) -> None:
        await self.print([])
        self._text = await self.follower.open_text()
        receiver = asyncio.create_task(self._receive_text())
        try:
            await self.show_updates()
        finally:
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)

    async def show_lines(self, lines: list[LogLine], state: RunState) -> None:
        width = self._size().columns
        for event in events_in(lines):
            self._text.record(event)
        await self.print([text for line in lines for text in self.lines_of(line, state, width)])
        await self._ask_for_keys()

    async def _answer_requests(self, keys: TerminalKeys) -> None:
        await self._ask_for_keys()
        while True:
            message = await self._requests.answer(self.follower.state, await keys.next())
            await self.print_lines(*([message] if message is not None else []))
            await self._ask_for_keys()

    async def _ask_for_keys(self) -> None:
        """Read keys while a request waits for an answer.

        Keys that were pressed before the request was shown are discarded, and only then the keys are named.
        """
        if self._keys is None:
            return
        need = self._requests.current(self.follower.state)
        asked = need.key if need is not None else None
        if asked is None:
            self._keys.disable()
        else:
            if asked != self._asked:
                self._keys.discard()
            self._keys.enable()
        if asked != self._asked:
            self._asked = asked
            await self.print([])

    async def _receive_text(self) -> None:
        """Collect what agents say before it is in the log. Without it, only the log is shown."""
        async with aclosing(live_text(self.home, self.run_id)) as hints:
            async for hint in hints:
                if self._text.add(hint):
                    self._has_new_text.set()

    async def _show_new_text(self) -> None:
        while True:
            await self._has_new_text.wait()
            self._has_new_text.clear()
            await self.print([])
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
                await self.print([])
                await self._ask_for_keys()  # again: the run may have come to the foreground
        finally:
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGWINCH)

    async def print(self, lines: list[str]) -> None:
        """Write the lines and redraw the live area below them, in one write."""
        async with self.lock:
            size = self._size()
            back = self._cursor_to_area()
            state = self.follower.state
            hints = self._requests.hints(state) if self._keys is not None and self._keys.is_enabled else {}
            self._area_rows = live_rows(
                state, self.run_id, now(), size.columns, size.lines, Extras(self._text.open_texts(), hints)
            )
            drawn = [self._paint_row(row) for row in self._area_rows]
            await self.writer.write(back + "".join(f"{line}\x1b[K\n" for line in (*lines, *drawn)) + "\x1b[J")

    def _cursor_to_area(self) -> str:
        """Return the escape sequence to the start of the area, whose rows may have wrapped in a narrower terminal."""
        width = max(1, self._size().columns)
        rows = sum(max(1, -(-display_width(row_text(row)) // width)) for row in self._area_rows)
        self._area_rows = []
        return f"\x1b[{rows}F" if rows else ""

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self.writer.fd)
        except OSError:
            return os.terminal_size((80, 24))
        return os.terminal_size((max(20, size.columns or 80), max(4, size.lines or 24)))

    def _paint_row(self, row: Row) -> str:
        return "".join(self.paint(span.text, span.colour) for span in row)

    def paint(self, text: str, colour: str | None) -> str:
        return f"\x1b[{ANSI_CODES[colour]}m{text}\x1b[0m" if colour is not None and self._uses_colour else text
