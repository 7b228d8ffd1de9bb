"""Runs on the cluster that wait for something that is away, and what is left of a run on its remote in the end."""

import os
from pathlib import Path

from holdfast.core.events.conversation import TurnEnded, TurnStarted
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted
from holdfast.engine.commands.cluster.session_program import hold
from holdfast.engine.commands.cluster.session_report import ReportKind
from holdfast.engine.commands.cluster.setbacks import MAX_FAULTS
from holdfast.engine.session.session import SessionHandle
from holdfast.git.cluster.remote_refs import list_remote_refs
from holdfast.git.repository import Repository
from tests.cli.test_run_limits import limited, once
from tests.cluster.test_placement import DONE, HELLO
from tests.support.cluster import Cluster


async def test_remote_that_goes_away_and_comes_back_loses_nothing(cluster: Cluster) -> None:
    """It is away when a turn ends: the run waits and says why. `resume` pushes what is here, and repeats no turn."""
    cluster.worker("one")
    go, begun = Path(cluster.folder, "go"), Path(cluster.folder, "begun")
    steps = [{"run": {"command": f"touch {begun}"}}, {"wait_for": {"path": str(go)}}, *DONE]
    run_id = cluster.submit("write hello.txt", cluster.book({"when": "", "steps": steps}))
    await cluster.until(begun.exists)
    os.rename(cluster.project.remote, f"{cluster.project.remote}.away")
    go.touch()
    await cluster.until_status(run_id, "waiting")
    assert "could not be pushed to the remote" in cluster.holdfast("show", run_id)
    assert await cluster.events(run_id, TaskCompleted) == []
    os.rename(f"{cluster.project.remote}.away", cluster.project.remote)
    cluster.holdfast("resume", run_id, "--json")
    await cluster.until_status(run_id, "done")
    assert len(await cluster.events(run_id, TaskCompleted)) == 1
    assert len(await cluster.events(run_id, TurnEnded)) == 1, "the completed turn is not repeated"
    assert {"hello.txt"} <= await cluster.files_of(run_id)


async def test_run_at_a_limit_continues_by_itself_at_the_reset(cluster: Cluster) -> None:
    """Its session ends; the workflow's timer places it again, without a command."""
    cluster.worker("one")
    agent = cluster.book(once(limited(20)), HELLO)
    run_id = cluster.submit("write hello.txt", agent, "--set", "quota.wait=0")
    await cluster.until_status(run_id, "done")
    reasons = [end.reason for end in await cluster.events(run_id, SessionEnd)]
    assert reasons == ["planned", "quota", "all_done"]
    assert len(await cluster.events(run_id, TurnStarted)) == 2


async def test_archive_deletes_a_runs_branches_on_the_remote_and_reset_everything(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    await cluster.until_status(run_id, "done")

    async def on_the_remote() -> list[str]:
        remote = await list_remote_refs(Repository(cluster.project.remote), cluster.project.remote, run_id)
        assert len(remote.everything) == len(remote.named)
        return sorted(remote.named)

    assert "heads/main" in await on_the_remote()
    cluster.holdfast("archive", run_id, "-y")
    assert [name for name in await on_the_remote() if name.startswith(("heads/", "snapshots/"))] == []
    cluster.holdfast("reset", run_id, "-y")
    assert await on_the_remote() == []
    assert run_id not in await cluster.home.store.run_ids()


async def test_run_whose_remote_no_worker_reaches_is_parked_and_says_why(cluster: Cluster) -> None:
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    os.rename(cluster.project.remote, f"{cluster.project.remote}.away")
    reports = [await hold(cluster.home, run_id, [], SessionHandle()) for _ in range(MAX_FAULTS)]
    assert [report.kind for report in reports[:-1]] == [ReportKind.FAILED] * (MAX_FAULTS - 1)
    delays = [report.after_s or 0.0 for report in reports[:-1]]
    assert delays == sorted(delays)
    assert (reports[-1].kind, reports[-1].reason) == (ReportKind.ENDED, "parked")
    assert await cluster.status(run_id) == "parked"
    assert "does not appear to be a git repository" in cluster.holdfast("show", run_id)
    os.rename(f"{cluster.project.remote}.away", cluster.project.remote)
    cluster.holdfast("resume", run_id, "--json")
    cluster.worker("one")
    await cluster.until_status(run_id, "done")
