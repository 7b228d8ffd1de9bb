"""Runs are placed on workers by a real Temporal server, with their log in a real Postgres and their files in git."""

import json
import os
import signal
import time
from pathlib import Path

from holdfast.core.events.conversation import TurnEnded
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted
from tests.support.cluster import Cluster
from tests.support.wait import PATIENCE, at_some_pace

DONE = [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "done"}]
HELLO = {"when": "You are the worker", "steps": DONE}
BEGIN = {"write": {"path": "begun.txt", "text": "begun\n"}}
HANG = {"hang": {"how": "turn", "seconds": 3600, "once": True}}


def slow(*before: object) -> dict[str, object]:
    """An agent that hangs in its first turn, the first time."""
    return {"when": "", "steps": [*before, HANG, *DONE]}


async def test_submitted_run_is_done_by_a_worker(cluster: Cluster) -> None:
    worker = cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    await cluster.until_status(run_id, "done")
    assert worker.is_ready()
    assert "hello.txt" in cluster.holdfast("diff", run_id)
    assert "holdfast" not in cluster.project.git("for-each-ref", "--format=%(refname)"), "the checkout has nothing"
    cluster.holdfast("merge", run_id, code=2)
    cluster.holdfast("push", run_id)
    assert f"refs/heads/holdfast/{run_id}/main" in cluster.project.git("ls-remote", "origin")
    listed = [json.loads(line) for line in cluster.holdfast("workers", "--json").splitlines()]
    assert [(row["name"], row["slots"], row["state"]) for row in listed] == [("one", 3, "ready")]


async def test_run_of_a_killed_worker_continues_on_another(cluster: Cluster) -> None:
    """With what its agent had written, although no turn had ended; and no completed turn is repeated."""
    cluster.worker("one")
    cluster.worker("two")
    run_id = cluster.submit("write hello.txt", cluster.book(slow(BEGIN)))
    owner = await cluster.owner_of(run_id)
    await cluster.until_snapshot_during_turn(run_id)
    owner.kill()
    await cluster.until_status(run_id, "done")
    starts = await cluster.events(run_id, SessionStart)
    assert len({start.machine for start in starts if start.machine is not None}) == 2
    assert len(await cluster.events(run_id, TaskCompleted)) == 1
    assert len(await cluster.events(run_id, TurnEnded)) == 1
    assert {"begun.txt", "hello.txt"} <= await cluster.files_of(run_id)


async def test_fenced_worker_writes_nothing_and_its_run_survives_the_next_owner(cluster: Cluster) -> None:
    """A worker freezes, another takes over, the first wakes up and reports; then the new owner is killed."""
    cluster.worker("one")
    cluster.worker("two")
    run_id = cluster.submit("write hello.txt", cluster.book(slow(), name="frozen"))
    first = await cluster.owner_of(run_id)
    await cluster.until_hung()
    frozen = first.freeze()
    cluster.book(slow(), name="frozen")  # the next agent hangs again
    cluster.forget_hangs()
    second = await cluster.owner_of(run_id, other_than=first)
    await cluster.until_hung()
    first.thaw(frozen)
    await cluster.until(lambda: not first.session_pids())
    assert first.process.poll() is None, "the worker itself goes on"
    assert second.session_pids(), "the new owner is undisturbed"
    second.kill()
    await cluster.until_status(run_id, "done")
    assert len(await cluster.events(run_id, TaskCompleted)) == 1
    assert "hello.txt" in await cluster.files_of(run_id)


async def test_agents_of_a_frozen_session_are_dead_before_its_lease_ends(cluster: Cluster) -> None:
    """Their worker kills them in time also when the lease is shorter than the default. Then it continues the run."""

    async def attempt(pace: int) -> None:
        lease_s = 3.0 * pace
        worker = cluster.worker(f"one-{pace}", HOLDFAST_LEASE=str(lease_s))
        try:
            cluster.forget_hangs()
            run_id = cluster.submit("write hello.txt", cluster.book(slow()))
            await cluster.owner_of(run_id)
            await cluster.until_hung()
            (session,), tree = worker.session_pids(), worker.tree()[1:]
            assert len(tree) > 1, "the session has an agent"
            os.kill(session, signal.SIGSTOP)
            frozen_at = time.monotonic()
            await cluster.until(lambda: not any(process.is_alive() for process in tree))
            assert time.monotonic() - frozen_at < lease_s
            await cluster.until_status(run_id, "done")
            assert len(await cluster.events(run_id, TaskCompleted)) == 1
        finally:
            worker.kill()

    await at_some_pace(attempt)


async def test_terminated_worker_hands_over_and_leaves_no_process(cluster: Cluster) -> None:
    worker = cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    await cluster.owner_of(run_id)
    await cluster.until_hung()
    tree = worker.tree()
    assert len(tree) > 2
    assert worker.terminate() == 0
    assert [process for process in tree if process.is_alive()] == []
    assert cluster.processes_of(run_id) == []
    assert (await cluster.events(run_id, SessionEnd))[-1].reason == "interrupted", "it ended cleanly"
    cluster.worker("two")
    await cluster.until_status(run_id, "done")


async def test_worker_that_dies_alone_takes_its_sessions_with_it(cluster: Cluster) -> None:
    worker = cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    await cluster.owner_of(run_id)
    await cluster.until_hung()
    tree = worker.tree()
    worker.kill_alone()
    await cluster.until(lambda: not any(process.is_alive() for process in tree))


async def test_drained_worker_ends_and_another_continues(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(slow()))
    await cluster.owner_of(run_id)
    await cluster.until_hung()
    cluster.worker("two")
    cluster.holdfast("worker", "drain", "one", "--wait")
    assert cluster.workers[0].process.wait(PATIENCE) == 0
    await cluster.until_status(run_id, "done")
    assert "hello.txt" in await cluster.files_of(run_id)


async def test_run_goes_to_a_worker_with_its_label(cluster: Cluster) -> None:
    """Submitting it again changes nothing."""
    plain = cluster.worker("plain")
    await cluster.until(plain.is_ready)
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO), "--needs", "gpu")
    cluster.holdfast("resume", run_id, "--json")
    cluster.worker("big", "--label", "gpu")
    await cluster.until_status(run_id, "done")
    assert run_id not in plain.read_log()
    assert len(await cluster.events(run_id, TaskCompleted)) == 1


async def test_agents_and_checks_never_see_the_store(cluster: Cluster) -> None:
    printed = Path(cluster.folder, "environment.txt")
    cluster.worker("one", PGPASSWORD="hunter2", PGPASSFILE="/nowhere", TEMPORAL_API_KEY="key")
    check = json.dumps([["sh", "-c", f"env >> {printed}"]])
    ask = {"run": {"command": f"env >> {printed}"}}
    book = cluster.book({"when": "You are the worker", "steps": [ask, *DONE]})
    run_id = cluster.submit("write hello.txt", book, "--set", f"worktree.setup={check}")
    await cluster.until_status(run_id, "done")
    seen = printed.read_text(encoding="utf-8")
    assert seen.count("PATH=") >= 2
    for forbidden in ("HOLDFAST_STORE", "HOLDFAST_ENGINE", "PGPASS", "TEMPORAL", "postgresql://", "hunter2"):
        assert forbidden not in seen
