"""A run of the cluster is rewound and forked on another machine than the one that worked on it."""

import json

from holdfast.core.events.rewind import RewindFinished
from holdfast.core.events.task import TaskCompleted
from holdfast.git.cluster.remote_refs import list_remote_refs
from holdfast.git.repository import Repository
from tests.cluster.test_placement import HELLO
from tests.support.cluster import Cluster


async def test_run_is_rewound_on_one_machine_and_continued_on_another(cluster: Cluster) -> None:
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    await cluster.until_status(run_id, "done")
    planned = json.loads(cluster.holdfast("rewind", run_id, "--to", "start", "--dry-run", "--json"))
    assert planned["abandoned"]["calls"] == [], "what an agent wrote in its worktree was in the home of the worker"
    assert [file["path"] for change in planned["worktrees"] for file in change["files"]] == ["hello.txt"]

    cluster.holdfast("rewind", run_id, "--to", "start", "-y")
    assert await cluster.status(run_id) == "planned"
    remote = await list_remote_refs(Repository(cluster.project.remote), cluster.project.remote, run_id)
    assert "heads/main" not in remote.named, "at the start it had no branch"
    cluster.holdfast("rewind", run_id, "--undo", "-y")
    assert await cluster.status(run_id) == "done"
    assert "hello.txt" in await cluster.files_of(run_id)

    cluster.holdfast("rewind", run_id, "--to", "turn-1", "-y")
    assert await cluster.status(run_id) == "rewound"
    assert "hello.txt" not in await cluster.files_of(run_id), "it is in the task's worktree, and not merged"
    cluster.holdfast("resume", run_id)
    await cluster.until_status(run_id, "done")
    assert "hello.txt" in await cluster.files_of(run_id)
    assert len(await cluster.events(run_id, TaskCompleted)) == 2
    assert len(await cluster.events(run_id, RewindFinished)) == 3


async def test_fork_of_a_run_on_the_cluster_is_a_run_of_the_cluster(cluster: Cluster) -> None:
    """Which survives its parent."""
    cluster.worker("one")
    run_id = cluster.submit("write hello.txt", cluster.book(HELLO))
    await cluster.until_status(run_id, "done")
    forked = str(json.loads(cluster.holdfast("fork", run_id, "--at", "turn-1", "--json"))["run"])
    cluster.holdfast("reset", run_id, "-y")
    cluster.holdfast("resume", forked)
    await cluster.until_status(forked, "done")
    assert "hello.txt" in await cluster.files_of(forked)
    cluster.holdfast("verify", forked)
