"""Folds a log into its state: starts from the newest snapshot, if there is one, and adds the lines after it."""

from collections.abc import Collection, Sequence
from io import BytesIO
from typing import NamedTuple

from holdfast.core.fold.fold import Fold, SupersededLines
from holdfast.core.log import chain
from holdfast.core.state import Rewind, RunState
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import START, Head, Log, Position, Snapshot
from holdfast.store.live_log import find_rewinds


class LiveState:
    """The state of a log that is being written. New lines are queued, and folded when the state is read.

    So an append does not wait for the fold, and many lines are folded faster together than one by one.
    """

    def __init__(self, fold: Fold, position: Position) -> None:
        self._fold: Fold | None = fold
        self._position = position
        self._unfolded: list[bytes] = []
        self.add_lines = self._unfolded.append

    @property
    def state(self) -> RunState:
        return self._catch_up().state

    def keep_prefix(self, position: Position, state: RunState) -> None:
        """Keep the state at an earlier position, for the rewind that is about to be written."""
        self._catch_up().keep_prefix(position, state)

    def _catch_up(self) -> Fold:
        fold = self._fold
        if fold is None:
            raise StorageFailed("folding the log of this run was interrupted; open the run again")
        if self._unfolded:
            self._fold = None  # if interrupted from here on, the fold matches no position of the log
            data = b"".join(self._unfolded)
            self._unfolded.clear()
            _feed_lines(fold, data)
            self._position += len(data)
            self._fold = fold
        return fold

    def snapshot(self, head: Head) -> Snapshot | None:
        """Return the state at this head; None when the state is at another position."""
        if self._fold is None:
            return None
        state = self.state
        return Snapshot(head, state) if self._position == head.position else None


class FoldedLog(NamedTuple):
    """A fold at the end of a log, ready for more lines."""

    fold: Fold
    head: Head
    lines_read: int


async def fold_log(log: Log, snapshot: Snapshot | None = None, *, only: frozenset[str] | None = None) -> FoldedLog:
    fold = Fold(snapshot.state if snapshot else None, only_sessions=only)
    before = fold.state.lines
    start = snapshot.head if snapshot else Head()
    head = await _feed(fold, log, start)
    if snapshot is not None and (fold.repeated or fold.lacks_prefix):
        return await fold_log(log, only=only)  # duplicates from before the snapshot must be found too
    targets = None
    if fold.lacks_prefix:
        fold, targets = Fold(only_sessions=only), {rewind.to for rewind in await find_rewinds(log, head.position)}
        head = await _feed(fold, log, start, targets)
    if not fold.repeated:
        return FoldedLog(fold, head, fold.state.lines - before)
    superseded = SupersededLines(fold.repeated)
    async for batch in log.read():
        superseded.feed(batch.data)
    second_fold = Fold(only_sessions=only, skip_lines=superseded.lines)
    second_fold.state.duplicates = fold.state.duplicates
    head = await _feed(second_fold, log, Head(), targets)
    return FoldedLog(second_fold, head, second_fold.state.lines)


def _feed_lines(fold: Fold, data: bytes) -> None:
    fold.feed_lines(BytesIO(data).readlines())  # more than twice as fast as `split`


async def _feed(fold: Fold, log: Log, start: Head, targets: Collection[Position] | None = None) -> Head:
    """Feed the log to a fold, which keeps the state at each of the `targets`.

    Without them, it ends at the first rewind: the state cannot be known before its target is.
    """
    position, last = start.position, b""
    async for batch in log.read(start.position):
        done = 0
        for target in sorted(target for target in targets or () if batch.start <= target < batch.end):
            _feed_lines(fold, batch.data[done : target - batch.start])
            fold.keep_prefix(target)
            done = target - batch.start
        _feed_lines(fold, batch.data[done:])
        if fold.lacks_prefix and targets is None:
            return Head(batch.start)  # the first rewind follows there
        position, last = batch.end, batch.data
    if not last:
        return start
    link = chain.carried_link(last[last.rfind(b"\n", 0, -1) + 1 : -1])
    return Head(position, link if link is not None else await chain_at(log, position))


async def fold_prefix(log: Log, position: Position, rewinds: Sequence[Rewind]) -> RunState:
    """Return the state at an earlier position. Reads the log up to there, once; `rewinds` are those of the state."""
    fold = Fold()
    targets = {rewind.to for rewind in rewinds if rewind.at < position}
    async for batch in log.read():
        data, done = batch.data[: max(0, position - batch.start)], 0
        for target in sorted(target for target in targets if batch.start <= target < batch.start + len(data)):
            _feed_lines(fold, data[done : target - batch.start])
            fold.keep_prefix(target)
            done = target - batch.start
        _feed_lines(fold, data[done:])
        if batch.end >= position:
            break
    return fold.state


async def chain_at(log: Log, position: Position) -> str:
    """Compute the link at a position from the start of the log: another tool wrote that line, without a link."""
    link = chain.GENESIS
    async for batch in log.read(START):
        for line in batch.data[: max(0, position - batch.start)].split(b"\n")[:-1]:
            bare, carried = chain.unseal(line)
            link = carried or chain.link(
                link, bare
            )  # after a damaged line the chain continues from the next carried link
    return link
