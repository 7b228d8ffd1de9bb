"""A cluster on this machine: Postgres, Temporal, three workers, six runs. One worker is killed; nothing is lost.

    make demo-cluster

Everything is real: servers from PyPI, `holdfast worker` processes with homes of their own, playbook agents, git. The
script submits as a user does, kills one worker with all that it started, and then checks every run from outside.
"""

import asyncio
import sys
import time
from typing import Any

from holdfast.core.events.conversation import TurnEnded
from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.engine.queries.placement import list_workers
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.process.identity import memory_bytes
from tests.support.cluster import Cluster
from tests.support.memory import in_memory
from tests.support.postgres import postgres_server, programs_folder
from tests.support.temporal import temporal_program, temporal_server

RUNS, WORKERS, TURN_S = 6, ("ada", "bob", "cyd"), 30
_BEGUN = time.monotonic()
_POLL_S = 0.5
_TELL_S = 6.0


def say(text: str, color: str = "") -> None:
    codes = {"green": "32", "red": "31", "dim": "2", "bold": "1"}
    shown = f"\033[{codes[color]}m{text}\033[0m" if color and sys.stdout.isatty() else text
    print(f"{time.monotonic() - _BEGUN:6.1f} s  {shown}", flush=True)


def agent(number: int) -> dict[str, Any]:
    """It writes a first file, works for a while, and writes a second one."""
    first = {"write": {"path": f"part-{number}-1.txt", "text": "first\n"}}
    second = {"write": {"path": f"part-{number}-2.txt", "text": "second\n"}}
    return {"when": "", "steps": [first, {"run": {"command": f"sleep {TURN_S}"}}, second, {"say": "done"}]}


async def main() -> int:
    if programs_folder() is None or temporal_program() is None:
        sys.stderr.write("demo-cluster: there is no Postgres or Temporal server for this platform\n")
        return 1
    say("starting Postgres and Temporal (dev server)", "dim")
    with in_memory() as folder, postgres_server() as postgres, temporal_server() as temporal:
        cluster = Cluster(folder, postgres.new_store_url(), temporal.url)
        try:
            return await play(cluster)
        finally:
            cluster.close()


async def play(cluster: Cluster) -> int:
    workers = {name: cluster.worker(name) for name in WORKERS}
    for worker in workers.values():
        await cluster.until(worker.is_ready)
    say(f"workers {', '.join(WORKERS)} are ready, each with 3 slots")
    names = [f"r{number}" for number in range(1, RUNS + 1)]
    runs = await asyncio.gather(*(submit(cluster, number, name) for number, name in enumerate(names, start=1)))
    say(f"submitted {len(runs)} runs")
    for run in runs:
        await cluster.owner_of(run)
    places = await wait_for_places(cluster)
    for name in WORKERS:
        say(f"  {name}: {', '.join(sorted(run for run, place in places.items() if place == name)) or '-'}")
    for run in places:
        await cluster.until_snapshot_during_turn(run)
    await tell_memory(cluster, runs[0])
    victim = max(WORKERS, key=list(places.values()).count)
    lost = sorted(run for run, place in places.items() if place == victim)
    say(f"kill -9 {victim}: the worker, {len(lost)} sessions and their agents are gone", "red")
    killed_at = time.monotonic()
    workers[victim].kill()
    await follow(cluster, runs, set(lost), killed_at)
    return await report(cluster, runs, set(lost))


async def follow(cluster: Cluster, runs: list[str], lost: set[str], killed_at: float) -> None:
    """Until every run is done, tell where the lost ones continue."""
    moved: set[str] = set()
    ended: set[str] = set()
    while len(ended) < RUNS:
        for run, place in (await placed(cluster)).items():
            if run in lost - moved:
                moved.add(run)
                say(f"  {run} continues on {place}, {time.monotonic() - killed_at:.1f} s after the kill")
        for run in set(runs) - ended:
            if await cluster.status(run) == "done":
                ended.add(run)
                say(f"  {run} is done", "green")
        await asyncio.sleep(_POLL_S)


async def tell_memory(cluster: Cluster, run: str) -> None:
    owner = await cluster.owner_of(run)
    sessions = [memory_bytes(pid) for pid in owner.session_pids()]
    session_mb = sum(sessions) / max(len(sessions), 1) / 1e6
    say(f"memory: a worker {memory_bytes(owner.process.pid) / 1e6:.0f} MB, a session {session_mb:.0f} MB", "dim")


async def submit(cluster: Cluster, number: int, name: str) -> str:
    book = cluster.book(agent(number), name=f"book-{number}")
    return await asyncio.to_thread(cluster.submit, f"write part {number}", book, "--name", name)


async def wait_for_places(cluster: Cluster) -> dict[str, str]:
    """Every worker tells again what it runs."""
    deadline = time.monotonic() + _TELL_S
    while len(places := await placed(cluster)) < RUNS and time.monotonic() < deadline:  # noqa: ASYNC110 - rows of a table
        await asyncio.sleep(_POLL_S)
    return places


async def placed(cluster: Cluster) -> dict[str, str]:
    """Which living worker has each run."""
    alive = {worker.name for worker in cluster.workers if worker.process.poll() is None}
    rows = await list_workers(cluster.home)
    return {run: row.name for row in rows if row.name in alive for run in row.runs}


async def report(cluster: Cluster, runs: list[str], moved: set[str]) -> int:
    say("checked from outside:", "bold")
    problems = 0
    for number, run in enumerate(runs, start=1):
        machines = {start.machine for start in await cluster.events(run, SessionStart)} - {None}
        completed, turns = len(await cluster.events(run, TaskCompleted)), len(await cluster.events(run, TurnEnded))
        files = {f"part-{number}-1.txt", f"part-{number}-2.txt"} <= await cluster.files_of(run)
        whole = (await verify_run(cluster.home, run)).is_intact
        is_right = (completed, turns, files, whole, len(machines)) == (1, 1, True, True, 1 + (run in moved))
        problems += not is_right
        facts = f"completed {completed}×, turns {turns}, files {'there' if files else 'MISSING'}"
        places = f"{len(machines)} machine{' ' if len(machines) == 1 else 's'}"
        text = f"  {run}  {places}  {facts}, log {'intact' if whole else 'BROKEN'}"
        say(text, "green" if is_right else "red")
    say(
        "nothing was lost, and nothing was done twice" if not problems else f"{problems} runs are not as they should be"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
