"""The server of the page: what a page costs to open, what many pages and many runs cost, and what a runner notices."""

import asyncio
import os
import time

from bench.figure import Figure, Target, number, spread
from bench.homes import RUN, LongRun, long_run, many_runs
from bench.page_server import PageServer
from bench.places import scratch
from bench.streaming import LISTENERS, throughput
from bench.workload import Size

_TASKS = 100
_LONG, _SHORT = 100_000, 1_000
_PAGES = 50
_ALLOWED_FACTOR, _ALLOWED_EACH = 1.2, 200_000  # bytes
_RUNS = 1_000
_SETTLE_S = 3.0


def measure(*, quick: bool) -> list[Figure]:
    part = 10 if quick else 1
    long = long_run(Size(_TASKS, _LONG // part))
    short = long_run(Size(_TASKS, max(_SHORT // part, 200)))
    with scratch() as folder:
        rounds = asyncio.run(throughput(os.path.join(folder, "watched"), 10 if quick else 60, "bench.page_server"))
    return [
        *_opening(long, short, 10 if quick else 40),
        _memory(long),
        _idle(_RUNS // part, 5 if quick else 20),
        Figure(
            name="watched",
            what=f"a runner's turns per second of its CPU time, with {LISTENERS} open pages",
            against="with a server and no page",
            spread=spread([alone.cpu / watched.cpu for watched, alone in rounds]),
            target=Target("≥", 0.95),
            note=f"of the clock: {number(spread([a.clock / w.clock for w, a in rounds]).median)} ×",
        ),
    ]


def _opening(long: LongRun, short: LongRun, rounds: int) -> list[Figure]:
    """What a page asks for before it shows the newest row; its WebSocket follows."""
    with PageServer(long.home) as of_long, PageServer(short.home) as of_short:
        for server in (of_long, of_short):
            _open(server)  # the first folds what no snapshot has
        requests, sent = of_long.requests, of_long.bytes
        ratios = []
        for _ in range(rounds):
            costs = {}
            for server in (of_long, of_short):
                before = server.cpu_s
                for _ in range(20):
                    _open(server)
                costs[server] = server.cpu_s - before
            ratios.append(costs[of_long] / max(costs[of_short], 0.01))
    what = f"a run of {long.events:,} events is opened in the page"
    return [
        Figure(
            name="opened-run",
            what=f"{what}: CPU of the server",
            against=f"a run of {short.events:,}",
            spread=spread(ratios),
            target=Target("≤", 1.5),
            note=f"{requests} requests, and the WebSocket",
        ),
        Figure(
            name="opened-bytes",
            what=f"{what}: what is sent",
            against="the limit of 500 kB",
            spread=spread([sent / 1000]),
            unit="kB",
            target=Target("≤", 500),
        ),
    ]


def _open(server: PageServer) -> None:
    server.get(f"/runs/{RUN}")
    server.get(f"/runs/{RUN}/events?limit=200")


def _memory(run: LongRun) -> Figure:
    with PageServer(run.home) as server:
        _open(server)
        with server.pages(RUN, 1):
            _settle(server)
            one = server.memory_bytes
        with server.pages(RUN, _PAGES):
            _settle(server)
            many = server.memory_bytes
    allowed = _ALLOWED_FACTOR * one + _PAGES * _ALLOWED_EACH
    return Figure(
        name="pages",
        what=f"memory of a server with {_PAGES} pages on one run",
        against=f"{_ALLOWED_FACTOR} × one page + {_ALLOWED_EACH // 1000} kB each",
        spread=spread([many / allowed]),
        target=Target("≤", 1),
        note=f"{number(one / 1e6)} MB with one, {number(many / 1e6)} MB with {_PAGES}",
    )


def _idle(runs: int, seconds: int) -> Figure:
    with PageServer(many_runs(runs)) as server, server.pages("add-feature-0000-abcdef", 1):
        _settle(server)
        used = []
        for _ in range(seconds):
            before, began = server.cpu_s, time.perf_counter()
            time.sleep(1)
            used.append((server.cpu_s - before) / (time.perf_counter() - began) * 1e3)
    return Figure(
        name="idle-server",
        what=f"an idle server with {runs:,} runs and an open page: CPU",
        against="per second",
        spread=spread([sum(used) / len(used)]),
        unit="ms",
        target=Target("≤", 1),
        note=f"over {seconds} seconds; the clock of the kernel has steps of 10 ms",
    )


def _settle(server: PageServer) -> None:
    """Return once nothing is done any more."""
    before = -1.0
    while server.cpu_s != before:
        before = server.cpu_s
        time.sleep(_SETTLE_S)
