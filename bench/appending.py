"""Appending: the cost of durability over the disk's own cost, and the gain of group commit.

Both ratios are measured on the same disk in the same event loop, block by block, with the real sync.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import NamedTuple

from bench.figure import Figure, Target, number, spread
from bench.homes import RUN, begin_story
from bench.least import Least
from bench.places import scratch
from bench.workload import Size
from holdfast.core.events import Draft
from holdfast.core.events.session import SessionStart
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import OwnedRun, open_run

ALONE = 50  # appends per block of a single producer
PRODUCERS = 64
EACH = 50  # appends per producer and block: more than a megabyte, so that every block includes a snapshot


class Raw:
    """The disk's own cost: writing the bytes and the sync."""

    def __init__(self, folder: str, name: str) -> None:
        self._fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def timed(self, pieces: list[bytes]) -> float:
        fd, write, sync = self._fd, os.write, os.fdatasync
        began = time.perf_counter()
        for piece in pieces:
            write(fd, piece)
            sync(fd)
        return time.perf_counter() - began

    def close(self) -> None:
        os.close(self._fd)


class Block(NamedTuple):
    seconds: float
    lines: list[bytes]


def measure(*, quick: bool) -> list[Figure]:
    return asyncio.run(_measure(quick=quick))


async def _measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        store = FileStore(folder)
        await store.create(RUN)
        async with open_run(store, RUN, feature="auth-system") as run:
            await run.begin_session(SessionStart(branch="main", host="vm", pid=os.getpid()))
            drafts = drafts_of_a_run()
            raw, least = Raw(folder, "raw"), Least(folder)
            figures = [
                await _alone(run, raw, drafts, rounds=20 if quick else 200),
                *await _together(run, raw, least, drafts, rounds=6 if quick else 60),
                await _inbox(store, raw, rounds=6 if quick else 60),
            ]
            raw.close()
            least.close()
            return figures


def drafts_of_a_run() -> Iterator[Draft]:
    """Yield the events of a run, one at a time, endlessly."""
    while True:
        for group in begin_story(Size(tasks=50, events=50_000)):
            yield from group


async def _alone(run: OwnedRun, raw: Raw, drafts: Iterator[Draft], rounds: int) -> Figure:
    ours, theirs, sizes = [], [], []
    lines = (await append_all(run, islice(drafts, ALONE))).lines  # warm-up
    for turn in range(rounds):
        raw_first = bool(turn % 2)  # alternate: the second may find the disk busier
        bare = raw.timed(lines) if raw_first else 0.0
        seconds, lines = await append_all(run, islice(drafts, ALONE))
        ours.append(seconds)
        theirs.append(bare if raw_first else raw.timed(lines))
        sizes += [len(line) for line in lines]
    more = spread([(own - bare) / ALONE for own, bare in zip(ours, theirs, strict=True)])
    return Figure(
        name="append",
        what="durable append, 1 producer",
        against="`os.write` + `os.fdatasync` of the same bytes",
        spread=spread([bare / own for own, bare in zip(ours, theirs, strict=True)]),
        target=Target("≥", 0.8),
        note=(
            f"{rate(ours, ALONE)} events/s against {rate(theirs, ALONE)}; {number(more.median * 1e6)} µs more than "
            f"the disk's {number(spread(theirs).median / ALONE * 1e6)} µs; {sum(sizes) / len(sizes):.0f} bytes a line"
        ),
    )


async def _together(run: OwnedRun, raw: Raw, least: Least, drafts: Iterator[Draft], rounds: int) -> list[Figure]:
    alone, together, floor, bare = [], [], [], []
    for _ in range(rounds + 1):
        seconds, lines = await append_all(run, islice(drafts, ALONE))
        alone.append(seconds / ALONE)
        together.append(await append_by_many(run.append, drafts) / (PRODUCERS * EACH))
        least.width = sum(map(len, lines)) // ALONE
        floor.append(await append_by_many(least.append, drafts) / (PRODUCERS * EACH))
        bare.append(raw.timed(lines) / ALONE)
    del alone[0], together[0], floor[0], bare[0]  # warm-up
    what = f"durable append, {PRODUCERS} producers"
    return [
        Figure(
            name="group",
            what=what,
            against="1 producer on the same run",
            spread=spread([one / many for one, many in zip(alone, together, strict=True)]),
            target=Target("≥", 13),
            note=f"{rate(together, 1)} events/s against {rate(alone, 1)}",
        ),
        Figure(
            name="group-raw",
            what=what,
            against="`os.write` + `os.fdatasync`, one line at a time",
            spread=spread([one / many for one, many in zip(bare, together, strict=True)]),
            note=f"{rate(together, 1)} events/s against {rate(bare, 1)}",
        ),
        Figure(
            name="group-least",
            what=f"{PRODUCERS} producers that only encode, hash, and share a write and sync",
            against="our 1 producer: the most that group commit could gain here",
            spread=spread([one / many for one, many in zip(alone, floor, strict=True)]),
            note=f"{rate(floor, 1)} events/s",
        ),
    ]


async def append_all(run: OwnedRun, drafts: Iterator[Draft]) -> Block:
    ready, batches = list(drafts), []
    began = time.perf_counter()
    for draft in ready:
        batches.append(await run.append(draft))  # noqa: PERF401 - a producer's loop
    return Block(time.perf_counter() - began, [batch.data for batch in batches])


async def append_by_many(append: Callable[[Draft], Awaitable[object]], drafts: Iterator[Draft]) -> float:
    async def producer(own: list[Draft]) -> None:
        for draft in own:
            await append(draft)

    shares = [list(islice(drafts, EACH)) for _ in range(PRODUCERS)]
    began = time.perf_counter()
    await asyncio.gather(*(producer(share) for share in shares))
    return time.perf_counter() - began


async def _inbox(store: FileStore, raw: Raw, rounds: int) -> Figure:
    inbox, body = store.inbox(RUN), b"x" * 299 + b"\n"
    ours, theirs = [], []
    for turn in range(rounds + 1):
        messages = [Message(id=f"{turn}-{n}", kind="user.message", sender="bench") for n in range(ALONE)]
        began = time.perf_counter()
        for message in messages:
            await inbox.put(message)
        ours.append(time.perf_counter() - began)
        theirs.append(raw.timed([body] * ALONE))
    return Figure(
        name="inbox",
        what="`inbox.put`, 1 sender",
        against="`os.write` + `os.fdatasync` of as many lines",
        spread=spread([bare / own for own, bare in zip(ours[1:], theirs[1:], strict=True)]),
        note=f"{rate(ours[1:], ALONE)} messages/s against {rate(theirs[1:], ALONE)}; {ALONE * (rounds + 1):,} in all",
    )


def rate(seconds: list[float], count: int) -> str:
    return number(count / spread(seconds).median)
