"""From a log to its state: the newest snapshot, if there is one, and the lines after it."""

from io import BytesIO
from typing import NamedTuple

from holdfast.core.fold.fold import Fold, Superseded
from holdfast.core.log import chain
from holdfast.core.state import RunState
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import START, Head, Log, Position, Snapshot


class Standing:
    """The fold of a log that is being written. Lines are noted as they come, and folded when somebody asks for them.

    An append need not wait for the fold, and many lines at once are folded faster than each by itself.
    """

    def __init__(self, fold: Fold, position: Position) -> None:
        self._fold: Fold | None = fold
        self._position = position
        self._unread: list[bytes] = []
        self.note = self._unread.append

    @property
    def state(self) -> RunState:
        return self._caught_up().state

    def _caught_up(self) -> Fold:
        fold = self._fold
        if fold is None:
            raise StorageFailed("the lines of this run could not be folded to their end; open it again")
        if self._unread:
            self._fold = None  # interrupted from here on, it is the fold of no point of the log
            data = b"".join(self._unread)
            self._unread.clear()
            _fold_in(fold, data)
            self._position += len(data)
            self._fold = fold
        return fold

    def snapshot(self, head: Head) -> Snapshot | None:
        """The state at this head; None when the state in hand is not that."""
        if self._fold is None:
            return None
        state = self.state
        return Snapshot(head, state) if self._position == head.position else None


class Folded(NamedTuple):
    """A fold that stands at the end of a log, ready for more."""

    fold: Fold
    head: Head
    lines_read: int


async def fold_log(log: Log, snapshot: Snapshot | None = None, *, only: frozenset[str] | None = None) -> Folded:
    fold = Fold(snapshot.state if snapshot else None, only=only)
    before = fold.state.lines
    head = await _feed(fold, log, snapshot.head if snapshot else Head())
    if not fold.repeated:
        return Folded(fold, head, fold.state.lines - before)
    if snapshot is not None:
        return await fold_log(log, only=only)  # numbers that came twice before the snapshot have to be found again too
    older = Superseded(fold.repeated)
    async for batch in log.read():
        older.feed(batch.data)
    again = Fold(only=only, without=older.lines)
    again.state.duplicates = fold.state.duplicates
    head = await _feed(again, log, Head())
    return Folded(again, head, again.state.lines)


def _fold_in(fold: Fold, data: bytes) -> None:
    fold.feed_lines(BytesIO(data).readlines())  # more than twice as fast as to split


async def _feed(fold: Fold, log: Log, start: Head) -> Head:
    position, last = start.position, b""
    async for batch in log.read(start.position):
        _fold_in(fold, batch.data)
        position, last = batch.end, batch.data
    if not last:
        return start
    link = chain.carried(last[last.rfind(b"\n", 0, -1) + 1 : -1])
    return Head(position, link if link is not None else await chain_at(log, position))


async def chain_at(log: Log, position: Position) -> str:
    """The link at a position whose line carries none (another tool wrote it), from the beginning."""
    link = chain.GENESIS
    async for batch in log.read(START):
        for line in batch.data[: max(0, position - batch.start)].split(b"\n")[:-1]:
            bare, carried = chain.unseal(line)
            link = carried or chain.link(link, bare)  # past a damaged line the chain goes on from what the next carries
    return link
