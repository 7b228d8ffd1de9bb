"""Opening a long run: with its snapshot, without it, and as the Resume Protocol's document does it.

Every opening is a real one (lock, repair, snapshot, tail) in a new process, as in `holdfast resume`. The log is in the
page cache for all sides, because each has just read it.
"""

import os

from bench.figure import Figure, Target, number, spread
from bench.fresh import Found, probe
from bench.homes import TAIL, LongRun, long_run
from bench.progress import say
from bench.workload import Size

TASKS = 400
EVENTS = 1_000_000
FEW = 100_000
OPENINGS = 21  # in one process, after the first
MB = 1e6


def measure(*, quick: bool) -> list[Figure]:
    part = 10 if quick else 1  # too few events for the targets
    long = long_run(Size(TASKS // part, EVENTS // part))
    short = long_run(Size(TASKS // part, FEW // part))
    seed, first, again, bare, little = _rounds(long, short, rounds=2 if quick else 4)
    return [
        Figure(
            name="open",
            what=f"open a run of {long.events:,} events, snapshot and {TAIL:,} events after it",
            against="the seed's way: `json.loads` of every line, filter by `sid`",
            spread=spread([s.seconds[0] / o for s, o in zip(seed, again, strict=True)]),
            target=None if quick else Target("≥", 1_000),
            note=f"{_ms(again)} against {_seconds(seed)}; a log of {os.path.getsize(long.log) / MB:.0f} MB",
        ),
        Figure(
            name="open-first",
            what="open it with its snapshot, the very first opening of a fresh process",
            against="the seed's way",
            spread=spread([s.seconds[0] / f for s, f in zip(seed, first, strict=True)]),
            note=_ms(first),
        ),
        Figure(
            name="fold",
            what=f"open a run of {long.events:,} events, no snapshot (and leave one)",
            against="the seed's way",
            spread=spread([s.seconds[0] / b.seconds[0] for s, b in zip(seed, bare, strict=True)]),
            target=None if quick else Target("≥", 8),
            note=f"{_seconds(bare)} against {_seconds(seed)}; {_folded(bare)} events/s",
        ),
        Figure(
            name="memory",
            what=f"peak memory of that, for {long.events:,} events",
            against=f"for {short.events:,} events of as many tasks",
            spread=spread([b.grown / max(1, f.grown) for b, f in zip(bare, little, strict=True)]),
            target=Target("≤", 1.2),
            note=f"grows by {_grown(bare)} against {_grown(little)}",
        ),
        Figure(
            name="memory-seed",
            what="peak memory of the seed's way",
            against="ours, without a snapshot",
            spread=spread([s.grown / b.grown for s, b in zip(seed, bare, strict=True)]),
            note=f"grows by {_grown(seed)}",
        ),
    ]


def _rounds(
    long: LongRun, short: LongRun, rounds: int
) -> tuple[list[Found], list[float], list[float], list[Found], list[Found]]:
    seed, first, again, bare, little = [], [], [], [], []
    for number_ in range(rounds):
        say(f"opening: round {number_ + 1} of {rounds}")
        seed.append(probe("seed", long.home))
        long.with_snapshot()
        opened = probe("open", long.home, 1 + OPENINGS)
        first.append(opened.seconds[0])
        again.append(spread(opened.seconds).median)
        long.without_snapshot()  # a long opening saves a new one
        bare.append(probe("open", long.home))
        short.without_snapshot()
        little.append(probe("open", short.home))
        assert opened.events == bare[-1].events == seed[-1].events, "all sides read the same log"
    long.with_snapshot()
    return seed, first, again, bare, little


def _seconds(found: list[Found]) -> str:
    return f"{number(spread([f.seconds[0] for f in found]).median)} s"


def _ms(seconds: list[float]) -> str:
    return f"{number(spread(seconds).median * 1e3)} ms"


def _folded(found: list[Found]) -> str:
    return number(spread([f.events / f.seconds[0] for f in found]).median)


def _grown(found: list[Found]) -> str:
    return f"{number(spread([f.grown / MB for f in found]).median)} MB"
