"""The selected run: its state and the end of its log, kept up to date. Only this run is opened."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing

from holdfast.app.text.log_lines import EventLine, describe_line
from holdfast.app.tui.help_text import error_line
from holdfast.core.conversation.live_text import LiveText
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import open_needs
from holdfast.engine.queries.live.follow import Follower
from holdfast.engine.queries.live.live_text import events_in, live_text
from holdfast.engine.queries.logs import ALL_EVENTS, LogLine, RunView, read_log, view_from_state
from holdfast.leaf.errors import HoldfastError, NoSuchRun

_MIN_INTERVAL_S = 0.1  # between two updates of the screen
_TEXT_DELAY_S = 0.05  # between new text and the update of the screen
_LINES_READ, _LINES_KEPT = 400, 200  # lines; many events have no description


class SelectedRun:
    """`problem` says why the run cannot be shown."""

    def __init__(self, home: Home, run_id: str, on_change: Callable[["SelectedRun"], None]) -> None:
        self.run_id = run_id
        self.view: RunView | None = None
        self.needs: Sequence[Need] = ()
        self.lines: deque[EventLine] = deque(maxlen=_LINES_KEPT)
        self.problem: str | None = None
        self.text = LiveText()  # what its agents are saying
        self._home = home
        self._on_change = on_change
        self._shown_until = 0

    async def follow(self) -> None:
        """Follow the run until this is cancelled, or the run becomes unreadable."""
        try:
            follower = await Follower.create(self._home, self.run_id)
            self.text = await follower.open_text()
            await self._load_last_lines(follower.state)
            await self._update(follower.state)
            receiver = asyncio.create_task(self._receive_text())
            try:
                await self._follow_log(follower)
            finally:
                receiver.cancel()
                await asyncio.gather(receiver, return_exceptions=True)
        except (FileNotFoundError, NoSuchRun):
            self._set_problem("this run was deleted")
        except (HoldfastError, OSError, UnicodeError) as error:
            self._set_problem(f"this run cannot be read ({error_line(error)}); look for repairs with: holdfast doctor")

    async def _follow_log(self, follower: Follower) -> None:
        async with aclosing(follower.updates()) as updates:
            async for update in updates:
                for event in events_in(update.lines):
                    self.text.record(event)
                self._add_lines(update.lines, update.state)
                await self._update(update.state)
                await asyncio.sleep(_MIN_INTERVAL_S)

    async def _receive_text(self) -> None:
        """Show what agents say before it is in the log, a few times a second."""
        loop, redraw = asyncio.get_running_loop(), None
        async with aclosing(live_text(self._home, self.run_id)) as hints:
            async for hint in hints:
                if self.text.add(hint) and (redraw is None or redraw.when() <= loop.time()):
                    redraw = loop.call_later(_TEXT_DELAY_S, self._on_change, self)

    async def refresh(self) -> None:
        """Update after a change that is not in the log, such as the death of the runner."""
        if self.view is not None and self.problem is None:
            try:
                await self._update(self.view.state)
            except (HoldfastError, OSError):
                return  # `follow` meets the same error and reports it

    async def _update(self, state: RunState) -> None:
        self.view = await view_from_state(self._home, self.run_id, state)
        self.needs = await open_needs(self._home, self.run_id, state)
        self._on_change(self)

    async def _load_last_lines(self, state: RunState) -> None:
        async with aclosing(read_log(self._home, self.run_id, ALL_EVENTS, last=_LINES_READ)) as lines:
            self._add_lines([line async for line in lines], state)

    def _add_lines(self, lines: Sequence[LogLine], state: RunState) -> None:
        new = [line for line in lines if line.cursor > self._shown_until]
        self.lines.extend(text for text in (describe_line(line, state) for line in new) if text is not None)
        self._shown_until = max([self._shown_until, *(line.cursor for line in new)])

    def _set_problem(self, problem: str) -> None:
        self.problem = problem
        self._on_change(self)
