"""A simulation of many runs over many workers, against a real Postgres: leases, appends, and the death of workers.

Each process stands for ten workers, in a process namespace of its own, so that it counts as other machines do. There
are no agents and no repositories: it measures the store, and how its load grows with the runs.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figure import Figure, number, spread
from bench.places import ROOT, scratch
from bench.progress import say
from holdfast.store.postgres.lease import DEFAULT_TTL_S
from tests.support.postgres import PostgresServer, postgres_server, programs_folder

WORKERS_EACH = 10  # of one process
RUNS_EACH = 20  # of one worker
SIZES = (1, 2, 5)  # processes: 200, 400 and 1,000 runs on 10, 20 and 50 workers
_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


class Worker:
    def __init__(self, url: str, home: str, number: int, runs: int) -> None:
        self.lost = 0  # runs whose lease ended, because this machine was too busy
        self.run_ids = [f"sim-{number}-{index}-abcdef" for index in range(runs)]
        command = [*_NAMESPACE, sys.executable, "-m", "bench.cluster_worker", url, home, " ".join(self.run_ids)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **command: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[float]:
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.lost += told.get("lost", 0)
        found: list[float] = told.get("took", [])
        return found

    def kill(self) -> None:
        self._process.kill()  # and with it its namespace
        self._process.wait()


def measure(*, quick: bool) -> list[Figure]:
    if programs_folder() is None or os.getuid() != 0:  # a namespace needs rights
        return []
    sizes = SIZES[:2] if quick else SIZES
    with scratch() as folder:
        server_folder = os.path.join(folder, "server")
        os.mkdir(server_folder)
        os.chmod(folder, 0o755)  # the server is another user
        with postgres_server(("max_connections=1500", "shared_buffers=256MB"), server_folder) as server:
            return [figure for size in sizes for figure in _measure(server, folder, size, seconds=3 if quick else 10)]


def _measure(server: PostgresServer, folder: str, size: int, seconds: float) -> Iterator[Figure]:
    runs = size * WORKERS_EACH * RUNS_EACH
    what = f"{runs:,} runs on {size * WORKERS_EACH} workers"
    say(f"{what} …")
    with _workers(server.new_store_url(), folder, size) as workers:
        spent, began = server.cpu_seconds(), time.monotonic()
        _all(workers, do="rest", seconds=seconds)
        idle = (server.cpu_seconds() - spent) / (time.monotonic() - began)
        spent, began = server.cpu_seconds(), time.monotonic()
        took = _all(workers, do="append", count=WORKERS_EACH * RUNS_EACH, seconds=seconds)
        elapsed = time.monotonic() - began
        busy = (server.cpu_seconds() - spent) / elapsed
        lost = sum(worker.lost for worker in workers)
        yield Figure(
            name=f"cluster-{runs}",
            what=f"{what}: all append at once, one event at a time",
            against="a simulation without agents: events/s of all runs",
            spread=spread([len(took) / elapsed]),
            unit="/s",
            note=(
                f"an append takes {number(spread(took).median * 1e3)} ms (p90 {number(spread(took).p90 * 1e3)} ms); "
                f"an event costs Postgres {number(1e6 * busy * elapsed / len(took))} µs of a core, and it uses "
                f"{number(busy)} cores; leases alone take {number(100 * idle)} % of one"
                f"{f'; {lost} runs lost their lease, because this machine was too busy' if lost else ''}"
            ),
        )
        if size > 1:
            yield _take_over(workers, what)


def _take_over(workers: list[Worker], what: str) -> Figure:
    """Kill one process, with ten workers; the others share its runs."""
    victim, *heirs = workers
    since = time.clock_gettime(time.CLOCK_BOOTTIME)
    for place, heir in enumerate(heirs):
        heir.ask(do="take", run_ids=victim.run_ids[place :: len(heirs)], since=since)
    victim.kill()
    took = [seconds for heir in heirs for seconds in heir.answer()]
    found = spread(took)
    return Figure(
        name=f"take-over-{len(workers)}",
        what=f"{what}: kill -9 of ten workers, until another one wrote to the run",
        against=f"the lease of {DEFAULT_TTL_S:g} s, which has to end first",
        spread=found,
        unit="s",
        note=f"{len(took)} runs; the slowest took {number(max(took))} s",
    )


def _all(workers: list[Worker], **command: object) -> list[float]:
    for worker in workers:
        worker.ask(**command)
    return [seconds for worker in workers for seconds in worker.answer()]


@contextmanager
def _workers(url: str, folder: str, size: int) -> Iterator[list[Worker]]:
    runs = WORKERS_EACH * RUNS_EACH
    workers = [Worker(url, os.path.join(folder, f"home-{size}-{index}"), index, runs) for index in range(size)]
    try:
        for worker in workers:
            worker.answer()  # it owns its runs
        yield workers
    finally:
        for worker in workers:
            worker.kill()
