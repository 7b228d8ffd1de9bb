"""The run that is looked at: its state and the last of its log, as they move. Only this one is opened."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing

from holdfast.app.text.log_lines import ToldLine, told_line
from holdfast.app.tui.help_text import complaint
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need
from holdfast.engine.queries.digest import needs
from holdfast.engine.queries.follow import Follower
from holdfast.engine.queries.logs import EVERYTHING, LogLine, RunView, read_log, view_of
from holdfast.leaf.errors import HoldfastError, NoSuchRun

_BREATH = 0.1  # seconds: what comes meanwhile is shown with the next look
_READ, _KEPT = 400, 200  # lines: many say nothing to a person


class Chosen:
    """`problem` says why there is nothing to show."""

    def __init__(self, home: str, run_id: str, changed: Callable[["Chosen"], None]) -> None:
        self.run_id = run_id
        self.view: RunView | None = None
        self.needs: Sequence[Need] = ()
        self.lines: deque[ToldLine] = deque(maxlen=_KEPT)
        self.problem: str | None = None
        self._home = home
        self._changed = changed
        self._told_until = 0

    async def follow(self) -> None:
        """Until this is cancelled, or the run cannot be read any further."""
        try:
            follower = await Follower.of(self._home, self.run_id)
            await self._tell_last(follower.state)
            await self._look(follower.state)
            async with aclosing(follower.moves()) as moves:
                async for moved in moves:
                    self._tell(moved.lines, moved.state)
                    await self._look(moved.state)
                    await asyncio.sleep(_BREATH)
        except (FileNotFoundError, NoSuchRun):
            self._give_up("this run is gone: somebody took it away")
        except (HoldfastError, OSError, UnicodeError) as error:
            self._give_up(f"this run cannot be read ({complaint(error)}); holdfast doctor tells what can be done")

    async def look_again(self) -> None:
        """Something about it changed that is not in its log, as its runner's death."""
        if self.view is not None and self.problem is None:
            try:
                await self._look(self.view.state)
            except (HoldfastError, OSError):
                return  # who follows it finds out too, and says so

    async def _look(self, state: RunState) -> None:
        self.view = await view_of(self._home, self.run_id, state)
        self.needs = await needs(self._home, self.run_id, state)
        self._changed(self)

    async def _tell_last(self, state: RunState) -> None:
        async with aclosing(read_log(self._home, self.run_id, EVERYTHING, last=_READ)) as lines:
            self._tell([line async for line in lines], state)

    def _tell(self, lines: Sequence[LogLine], state: RunState) -> None:
        new = [line for line in lines if line.cursor > self._told_until]
        self.lines.extend(told for told in (told_line(line, state) for line in new) if told is not None)
        self._told_until = max([self._told_until, *(line.cursor for line in new)])

    def _give_up(self, why: str) -> None:
        self.problem = why
        self._changed(self)
