"""The long proofs of placement: many kills, zombies and SIGTERMs, a cut network, a Temporal server that is away."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.events.conversation import TurnEnded
from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.leaf.process.identity import ProcessIdentity
from holdfast.store.postgres.lease import DEFAULT_TTL_S
from tests.cluster.test_placement import DONE, HELLO, slow
from tests.support.cluster import HEARTBEAT_S, Cluster
from tests.support.forward import forwarded
from tests.support.postgres import PostgresServer
from tests.support.proofs import record
from tests.support.temporal import TemporalServer

pytestmark = pytest.mark.torture

_ROUNDS = int(os.environ.get("HOLDFAST_CLUSTER_ROUNDS", "50"))
HOST_ADDRESS, DATABASE_PORT, ENGINE_PORT = "10.199.7.1", 15432, 17233


async def test_killed_machines_lose_no_run(cluster: Cluster) -> None:
    """Each round kills the machine of a run in the middle of a turn; the gap ends when another agent has its prompt."""
    for name in ("one", "two", "three"):
        cluster.worker(name)
    gaps: list[float] = []
    for number in range(_ROUNDS):
        cluster.forget_hangs()
        run_id = cluster.submit(f"write hello.txt, {number}", cluster.book(slow(), name=f"kill-{number}"))
        owner = await cluster.owner_of(run_id)
        await cluster.until_hung()
        killed_at = time.monotonic()
        owner.kill()
        await cluster.owner_of(run_id, other_than=owner)
        gaps.append(time.monotonic() - killed_at)
        cluster.restart(owner)
        await cluster.until_status(run_id, "done")
        assert len(await cluster.events(run_id, TaskCompleted)) == 1
        assert len(await cluster.events(run_id, TurnEnded)) == 1, "no completed turn is repeated"
    p95 = sorted(gaps)[int(0.95 * (len(gaps) - 1))]
    record("kill", rounds=_ROUNDS, lost=0, repeated=0, p50_s=sorted(gaps)[len(gaps) // 2], p95_s=p95, max_s=max(gaps))
    assert p95 < HEARTBEAT_S + DEFAULT_TTL_S + 10


async def test_zombies_whose_successors_are_killed_lose_no_run(cluster: Cluster) -> None:
    for name in ("one", "two", "three"):
        cluster.worker(name)
    for number in range(_ROUNDS):
        cluster.forget_hangs()
        run_id = cluster.submit(f"write hello.txt, {number}", cluster.book(slow(), name=f"zombie-{number}"))
        first = await cluster.owner_of(run_id)
        await cluster.until_hung()
        frozen = first.freeze()
        cluster.forget_hangs()
        second = await cluster.owner_of(run_id, other_than=first)
        await cluster.until_hung()
        first.thaw(frozen)
        await cluster.until(lambda first=first: not first.session_pids())  # type: ignore[misc]
        second.kill()
        cluster.restart(second)
        await cluster.until_status(run_id, "done")
        assert len(await cluster.events(run_id, TaskCompleted)) == 1
        assert "hello.txt" in await cluster.files_of(run_id)
    record("zombie", rounds=_ROUNDS, lost=0)


async def test_terminated_workers_leave_no_process(cluster: Cluster) -> None:
    """By SIGTERM, in the middle of a turn or while a session begins. Another worker continues each run."""
    for name in ("one", "two"):
        cluster.worker(name)
    took: list[float] = []
    for number in range(_ROUNDS):
        cluster.forget_hangs()
        in_turn = bool(number % 2)
        book = cluster.book(slow() if in_turn else HELLO, name=f"end-{number}")
        run_id = cluster.submit(f"write hello.txt, {number}", book)
        owner = await cluster.owner_of(run_id)
        if in_turn:
            await cluster.until_hung()
        tree = owner.tree()
        began = time.monotonic()
        code = await asyncio.to_thread(owner.terminate)
        took.append(time.monotonic() - began)
        assert code == 0, owner.read_log()
        assert [process for process in tree if process.is_alive()] == []
        cluster.restart(owner)
        await cluster.until_status(run_id, "done")
        assert len(await cluster.events(run_id, TaskCompleted)) == 1
        assert "hello.txt" in await cluster.files_of(run_id)
    record("terminated", rounds=_ROUNDS, lost=0, left=0, p50_s=sorted(took)[len(took) // 2], max_s=max(took))


async def test_absent_temporal_interrupts_no_run(cluster: Cluster, temporal: TemporalServer) -> None:
    """For 20 seconds, in the middle of a turn and at its end."""
    cluster.worker("one")
    cluster.worker("two")
    go = Path(cluster.folder, "go")
    wait = {"wait_for": {"path": str(go)}}
    begun = Path(cluster.folder, "begun")
    begin = {"run": {"command": f"touch {begun}"}}
    book = cluster.book({"when": "", "steps": [begin, wait, *DONE]})
    run_ids = [cluster.submit(f"write hello.txt, {number}", book) for number in range(4)]
    for run_id in run_ids:
        await cluster.owner_of(run_id)
    await cluster.until(begun.exists)
    temporal.kill()
    await asyncio.sleep(20)
    go.touch()  # the first runs end while the server is away, or right after
    temporal.start()
    temporal.wait_until_ready()
    for run_id in run_ids:
        await cluster.until_status(run_id, "done")
        starts = await cluster.events(run_id, SessionStart)
        assert [start.command for start in starts] == ["plan", "run"], "no session was interrupted"
    record("temporal_away", seconds=20, runs=len(run_ids), interrupted=0)


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace with a way to this host, which can be cut."""
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: a cut network; it needs root")
    name = f"hf{os.getpid() % 10000}"
    outside, inside = f"{name}o", f"{name}i"
    commands = (
        f"ip netns add {name}",
        f"ip link add {outside} type veth peer name {inside} netns {name}",
        f"ip addr add {HOST_ADDRESS}/30 dev {outside}",
        f"ip link set {outside} up",
        f"ip -n {name} addr add 10.199.7.2/30 dev {inside}",
        f"ip -n {name} link set {inside} up",
        f"ip -n {name} link set lo up",
    )
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"NOT TESTED: a cut network; `{command}` failed: {done.stderr.strip()}")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", outside], capture_output=True, check=False)


async def test_agents_of_a_cut_off_machine_die_before_its_lease_ends(
    cluster: Cluster, namespace: str, postgres: PostgresServer, temporal: TemporalServer
) -> None:
    """The machine is alive and reaches nothing: neither the database nor Temporal."""
    with (
        forwarded(f"{HOST_ADDRESS}:{DATABASE_PORT}", postgres.socket) as database,
        forwarded(f"{HOST_ADDRESS}:{ENGINE_PORT}", temporal.address),
    ):
        assert database
        await _cut_network(cluster, namespace)


async def _cut_network(cluster: Cluster, namespace: str) -> None:
    cut_off = cluster.worker_in_namespace(
        "cut", namespace, f"{HOST_ADDRESS}:{DATABASE_PORT}", f"{HOST_ADDRESS}:{ENGINE_PORT}"
    )
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    assert await cluster.owner_of(run_id) is cut_off
    await cluster.until_hung()
    tree = [process for process in cut_off.tree() if process.pid != cut_off.process.pid]
    cluster.worker("other")
    cut_at = time.monotonic()
    subprocess.run(["ip", "link", "set", f"{namespace}o", "down"], check=True)
    died_at = await _wait_for_death(cluster, tree)
    await cluster.owner_of(run_id, other_than=cut_off)
    taken_at = time.monotonic()
    record("network", agents_dead_s=died_at - cut_at, taken_over_s=taken_at - cut_at, lease_s=DEFAULT_TTL_S)
    assert died_at - cut_at < DEFAULT_TTL_S
    assert died_at < taken_at
    await cluster.until_status(run_id, "done")


async def _wait_for_death(cluster: Cluster, tree: list[ProcessIdentity]) -> float:
    await cluster.until(lambda: not any(process.is_alive() for process in tree))
    return time.monotonic()
