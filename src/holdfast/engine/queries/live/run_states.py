"""The states of the runs that are asked about again and again: each question folds only what was written since."""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from holdfast.core.fold.fold import Fold
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, view_from_state
from holdfast.store.base import Position
from holdfast.store.fold import fold_log

_MAX_KEPT = 24  # runs


class RunAt(NamedTuple):
    """A run as it was when its log ended at `position`."""

    view: RunView
    position: Position


class _Known:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.inode = 0
        self.fold: Fold | None = None
        self.position: Position = 0


class RunStates:
    """Keeps the folds of the runs that were asked about last."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def view(self, run_id: str) -> RunAt:
        state, position = await self.state(run_id)
        return RunAt(await view_from_state(self._home, run_id, state), position)

    async def state(self, run_id: str) -> tuple[RunState, Position]:
        """Return the state now, and the end of the log that it is the fold of. Do not keep it: it is updated."""
        known = self._known.setdefault(run_id, _Known())
        self._known.move_to_end(run_id)
        while len(self._known) > _MAX_KEPT:
            self._known.popitem(last=False)
        async with known.lock:
            fold = await self._update(run_id, known)
            return fold.state, known.position

    async def _update(self, run_id: str, known: _Known) -> Fold:
        stamp = self._home.index.stamp(run_id)
        log = self._home.store.log(run_id)
        if known.fold is not None and stamp.inode == known.inode and stamp.size >= known.position:
            fold, known.fold = known.fold, None  # if interrupted, it is folded anew
            async for batch in log.read(known.position):
                fold.feed(batch.data)
                known.position = batch.end
            if not fold.lacks_prefix:
                known.fold = fold
                return fold
        folded = await fold_log(log, await self._home.store.snapshot(run_id))
        known.fold, known.position, known.inode = folded.fold, folded.head.position, stamp.inode
        return folded.fold
