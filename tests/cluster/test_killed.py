"""Processes that place runs are killed: a run that was recorded is done, and done once."""

import signal

from holdfast.core.events.task import TaskCompleted
from tests.cli.program import failpoint_environment
from tests.cluster.test_placement import HELLO
from tests.support.cluster import Cluster


async def test_killed_submitter_leaves_a_recorded_run(cluster: Cluster) -> None:
    """Killed before it asked Temporal, `resume` submits the run; killed after that, the run is placed already."""
    cluster.worker("one")
    agent, known = cluster.book(HELLO), set[str]()
    for side in ("before", "after"):
        cluster.forget_passes()
        armed = failpoint_environment(cluster.folder, f"cluster.submit.{side}:1")
        run = ("run", f"write hello.txt, {side}", "--on", "cluster", "--agent", agent, "--json")
        cluster.holdfast(*run, code=-signal.SIGKILL, environment=armed)
        (run_id,) = set(await cluster.home.store.run_ids()) - known
        known.add(run_id)
        if side == "before":
            cluster.holdfast("resume", run_id, "--json")
        await cluster.until_status(run_id, "done")
        assert len(await cluster.events(run_id, TaskCompleted)) == 1


async def test_run_of_a_worker_that_is_killed_as_it_begins_is_done_by_the_next_one(cluster: Cluster) -> None:
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    for side in ("before", "after"):
        cluster.forget_passes()
        dying = cluster.worker(side, **failpoint_environment(cluster.folder, f"worker.session.{side}:1"))
        await cluster.until(lambda dying=dying: dying.process.poll() is not None)  # type: ignore[misc]
        assert dying.process.returncode == -signal.SIGKILL
    cluster.worker("next")
    await cluster.until_status(run_id, "done")
    assert len(await cluster.events(run_id, TaskCompleted)) == 1
    assert "hello.txt" in await cluster.files_of(run_id)
