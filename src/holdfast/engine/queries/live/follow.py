"""Follows a run: its state and each new line of its log."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from holdfast.core.conversation.live_text import LiveText
from holdfast.core.fold.fold import Fold
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.live.live_text import open_turns
from holdfast.engine.queries.logs import LogLine, parse_batch
from holdfast.store.base import Batch, Log, Position
from holdfast.store.fold import fold_log
from holdfast.store.live_log import LiveLog


class RunUpdate(NamedTuple):
    """The state of a run, and the lines written since the previous update."""

    state: RunState
    lines: Sequence[LogLine]


class Follower:
    """Follows a log from a position, or from its current end. Reads only; it owns nothing.

    What a rewind has abandoned already is left out; what is abandoned later was seen before.
    """

    def __init__(self, log: Log, fold: Fold, folded: Position, after: Position) -> None:
        self._log = log
        self._fold = fold
        self._folded_until = folded
        self._after = after

    @classmethod
    async def create(cls, home: Home, run_id: str, after: Position | None = None) -> "Follower":
        store = home.store
        log = store.log(run_id)
        fold, head, _ = await fold_log(log, await store.snapshot(run_id))
        return cls(log, fold, head.position, head.position if after is None else after)

    @property
    def state(self) -> RunState:
        return self._fold.state

    async def open_text(self) -> LiveText:
        """Return the text of the turns that are open now. Call it before the first update, and feed it the updates.

        Without it, if the updates begin in the past: they have those turns.
        """
        if self._after < self._folded_until:
            return LiveText()
        return await open_turns(self._log, self.state, self._after)

    async def updates(self) -> AsyncGenerator[RunUpdate, None]:
        """Yield everything after the position, as it is written. Never ends by itself."""
        batches = self._live_log().follow(self._after)
        assert isinstance(batches, AsyncGenerator)
        async with aclosing(batches):
            async for update in self._updates_in(batches):
                yield update

    async def pending_updates(self) -> AsyncGenerator[RunUpdate, None]:
        """Yield what is there already and was not yielded yet."""
        async for update in self._updates_in(self._live_log().read(self._after)):
            yield update

    def _live_log(self) -> Log:
        return LiveLog(self._log, self.state.rewinds)

    async def _updates_in(self, batches: AsyncIterator[Batch]) -> AsyncIterator[RunUpdate]:
        async for batch in batches:
            self._fold.feed(batch.data[max(0, self._folded_until - batch.start) :])
            self._folded_until = max(self._folded_until, batch.end)
            if self._fold.lacks_prefix:
                self._fold, head, _ = await fold_log(self._log)
                self._folded_until = head.position
            self._after = batch.end
            yield RunUpdate(self.state, parse_batch(batch))
