"""Reading a log whole, and checking by hand what it promises."""

from collections.abc import AsyncIterator, Iterable

from holdfast.core.fold.fold import Fold
from holdfast.core.log import chain
from holdfast.core.log.codec import Line, parse
from holdfast.core.rewind import live_ranges
from holdfast.core.state import RunState
from holdfast.store.base import Batch, Log, Position, Store
from holdfast.store.live_log import rewinds_in


async def collect(batches: AsyncIterator[Batch], start: Position = 0) -> bytes:
    """All the bytes of batches that follow on one another."""
    data = bytearray()
    async for batch in batches:
        assert batch.start == start + len(data)
        assert batch.data.endswith(b"\n")
        data += batch.data
    return bytes(data)


async def collect_back(batches: AsyncIterator[Batch]) -> bytes:
    data = b""
    end: Position | None = None
    async for batch in batches:
        assert end is None or batch.end == end
        assert batch.data.endswith(b"\n")
        end, data = batch.start, batch.data + data
    return data


async def whole(store: Store, run_id: str) -> bytes:
    return await collect(store.log(run_id).read())


def fold_of(data: bytes) -> Fold:
    """The fold of a whole log, also over rewinds."""
    fold, done = Fold(), 0
    for target in sorted({rewind.to for rewind in rewinds_in(Batch(0, data))}):
        fold.feed(data[done:target])
        fold.keep_prefix(target)
        done = target
    fold.feed(data[done:])
    return fold


def live_part(data: bytes) -> bytes:
    """A log without what a rewind abandoned."""
    return b"".join(data[start:end] for start, end in live_ranges(rewinds_in(Batch(0, data)), len(data)))


async def first_lines(log: Log, count: int, after: Position = 0) -> list[bytes]:
    """Follow until `count` lines have come."""
    lines: list[bytes] = []
    following = log.follow(after)
    async for batch in following:
        lines += batch.data.splitlines()
        if len(lines) >= count:
            break
    await closed(following)
    return lines


async def closed(iterator: AsyncIterator[object]) -> None:
    """End an async generator now, not when it is collected."""
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


def assert_chained(data: bytes) -> None:
    """Every line carries the hash of the line before and of itself, as `core.chain` tells how to check by hand."""
    assert_covered(data)
    for line in data.split(b"\n")[:-1]:
        assert chain.carried_link(line) is not None, f"not in the chain: {line[:120]!r}"


def assert_covered(data: bytes) -> None:
    """The links that there are fit. A line of another tool carries none, and is covered by the next that does."""
    previous = chain.GENESIS
    for line in data.split(b"\n")[:-1]:
        bare, carried = chain.unseal(line)
        previous = chain.link(previous, bare)
        assert carried in (None, previous), f"the chain breaks at {line[:120]!r}"


def chain_breaks(data: bytes) -> int:
    """How many lines carry a link that does not fit the line before them."""
    previous, breaks = chain.GENESIS, 0
    for line in data.split(b"\n")[:-1]:
        bare, carried = chain.unseal(line)
        own = chain.link(previous, bare)
        breaks += carried not in (None, own)
        previous = carried or own
    return breaks


def assert_numbered(data: bytes) -> None:
    """`seq` counts from 0 within each session, without a gap, and no session comes back."""
    expected: dict[str, int] = {}
    newest = None
    for line in heads(data):
        assert line.seq == expected.get(line.sid, 0)
        assert line.sid == newest or line.seq == 0
        expected[line.sid] = line.seq + 1
        newest = line.sid


def assert_whole(data: bytes) -> None:
    assert_chained(data)
    assert_numbered(data)


def heads(data: bytes) -> list[Line]:
    found = []
    for raw in data.split(b"\n")[:-1]:
        line = parse(raw)
        assert isinstance(line, Line), f"unreadable: {raw[:120]!r}"
        found.append(line)
    return found


def folded(data: bytes) -> RunState:
    """The state by the shortest way: every line, from the first, in one piece."""
    fold = Fold()
    fold.feed(data)
    return fold.state


def boundaries(data: bytes) -> list[Position]:
    """Every position that a cursor can have."""
    return [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n"))]


def is_prefix(part: Iterable[object], of: Iterable[object]) -> bool:
    part, of = list(part), list(of)
    return of[: len(part)] == part
