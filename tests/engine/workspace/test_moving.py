"""A cluster run moves from machine to machine by refs on its remote, and an earlier owner's pushes are refused."""

import os
from pathlib import Path

import pytest

from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.work.names import worktree_names
from holdfast.engine.workspace.reconcile import reconcile_workspace, restore_run_branch
from holdfast.engine.workspace.transport import RefTransport
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.cluster.remote_refs import list_remote_refs, local_refs
from holdfast.git.effects import MakeWorktree
from holdfast.git.repository import Repository
from holdfast.leaf.errors import RunFenced
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.machines import Machine
from tests.support.projects import Project, write
from tests.support.proofs import record

_ZOMBIES = 50


@pytest.fixture
def ada(tmp_path: Path) -> Machine:
    return Machine(str(tmp_path), "ada")


@pytest.fixture
def bob(tmp_path: Path) -> Machine:
    return Machine(str(tmp_path), "bob")


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "Ada")
        monkeypatch.setenv(f"{name}_EMAIL", "ada@example.com")


@pytest.fixture
async def run_id(ada: Machine, project: Project) -> str:
    return await create_run(ada, NewRun("Test moving", project.path, slug="moving", remote=project.remote))


async def names_there(project: Project, run_id: str) -> list[str]:
    return sorted((await list_remote_refs(Repository(project.remote), project.remote, run_id)).named)


async def commit_task(workspace: Workspace, task_id: str, files: dict[str, str]) -> str | None:
    worktree = await workspace.open_worktree(task_id)
    write(worktree.path, files)
    return await workspace.commit(task_id, f"Do {task_id}")


async def test_new_cluster_run_leaves_nothing_in_the_users_repository(run_id: str, project: Project) -> None:
    assert "holdfast" not in project.git("for-each-ref", "--format=%(refname)")
    assert project.git("worktree", "list").count("\n") <= 1
    assert await names_there(project, run_id) == ["heads/main", "owner"]


async def test_next_machine_has_what_the_last_one_committed(
    ada: Machine, bob: Machine, run_id: str, project: Project
) -> None:
    async with open_workspace(ada, run_id, "resume") as workspace:
        await workspace.open_worktree(base=project.git("rev-parse", "main").strip())
        commit = await commit_task(workspace, "T-1", {"new.txt": "new\n"})
        assert await names_there(project, run_id) == ["heads/T-1", "heads/main", "owner"]
    async with open_workspace(bob, run_id, "resume") as workspace:
        assert workspace.effects.moved
        assert await workspace.tip("T-1") == commit
        assert [merged.commit is not None for merged in await workspace.merge(["T-1"])] == [True]
    async with open_workspace(ada, run_id, "resume") as workspace:
        assert workspace.effects.moved
        assert "new.txt" in project.git(
            "ls-tree", "--name-only", await workspace.tip(), at=workspace.repository.common_dir
        )


async def test_same_machine_continues_with_its_uncommitted_files(ada: Machine, run_id: str, project: Project) -> None:
    async with open_workspace(ada, run_id, "resume") as workspace:
        await workspace.open_worktree(base=project.git("rev-parse", "main").strip())
        path = (await workspace.open_worktree("T-1")).path
    write(path, {"draft.txt": "not committed\n"})
    async with open_workspace(ada, run_id, "resume") as workspace:
        assert not workspace.effects.moved
        assert os.path.exists(os.path.join(workspace.worktree("T-1").path, "draft.txt"))


async def test_files_that_another_machine_has_outdated_are_saved_first(
    ada: Machine, bob: Machine, run_id: str, project: Project
) -> None:
    async with open_workspace(ada, run_id, "resume") as workspace:
        await workspace.open_worktree(base=project.git("rev-parse", "main").strip())
        path = (await workspace.open_worktree("T-1")).path
    write(path, {"draft.txt": "only on the first machine\n"})
    async with open_workspace(bob, run_id, "resume") as workspace:
        await commit_task(workspace, "T-1", {"other.txt": "other\n"})
    async with open_workspace(ada, run_id, "resume") as workspace:
        saved = await workspace.repository.refs(workspace.place("T-1").salvage_refs)
        trees = [
            project.git("ls-tree", "--name-only", ref, at=workspace.repository.common_dir).split() for ref in saved
        ]
        assert any("draft.txt" in names for names in trees)
        assert not os.path.exists(path)


async def test_timed_snapshot_is_what_the_next_machine_begins_with(
    ada: Machine, bob: Machine, run_id: str, project: Project
) -> None:
    async with open_workspace(ada, run_id, "resume") as workspace:
        await workspace.open_worktree(base=project.git("rev-parse", "main").strip())
        write((await workspace.open_worktree("T-1")).path, {"half.txt": "half\n"})
        await workspace.snapshot_during_turn("T-1")
        again = await workspace.snapshot_during_turn("T-1")
        assert again is None, "nothing changed since"
    async with open_workspace(bob, run_id, "resume") as workspace:
        state = workspace.effects.run.state
        during = state.branches[workspace.place("T-1").branch].during
        assert during is not None
        assert await workspace.repository.commit_of(during) == during
        await restore_run_branch(workspace)
        findings = await reconcile_workspace(workspace)
        assert {finding.task for finding in findings} >= {"T-1"}
    told = [
        event.message for event in events_in(await whole(bob.store, run_id)) if isinstance(event, WorkspaceReconciled)
    ]
    assert any(text.startswith("The run moved to another machine.") for text in told)


async def test_zombies_push_is_refused(ada: Machine, bob: Machine, run_id: str, project: Project) -> None:
    """It names new refs and old ones; the remote takes none of them, whatever the zombie does next."""
    base = project.git("rev-parse", "main").strip()
    async with open_workspace(ada, run_id, "resume") as workspace:
        await workspace.open_worktree(base=base)
        zombie = RefTransport(workspace.repository, run_id, project.remote, workspace.effects.run.epoch)
        await zombie.begin()
        mirror, site = workspace.repository, workspace.effects.site("0" * 16)
    async with open_workspace(bob, run_id, "resume") as workspace:
        before = await names_there(project, run_id)
        await MakeWorktree(task="T-9", base=base).perform(site)  # the zombie works on, in its own folders
        assert f"heads/{worktree_names(run_id, 'T-9').leaf}" in await local_refs(mirror, run_id)
        for _ in range(2):
            with pytest.raises(RunFenced, match="taken over"):
                await zombie.publish()
        assert await names_there(project, run_id) == before
        assert await commit_task(workspace, "T-1", {"new.txt": "new\n"}) is not None


@pytest.mark.torture
async def test_no_push_of_many_zombies_is_taken(ada: Machine, bob: Machine, run_id: str, project: Project) -> None:
    """The machines take the run from each other; each pushes once more after it lost it."""
    base = project.git("rev-parse", "main").strip()
    for number in range(_ZOMBIES):
        first, second = (ada, bob) if number % 2 else (bob, ada)
        async with open_workspace(first, run_id, "resume") as workspace:
            await workspace.open_worktree(base=base)
            zombie = RefTransport(workspace.repository, run_id, project.remote, workspace.effects.run.epoch)
            await zombie.begin()
            site = workspace.effects.site("0" * 16)
        async with open_workspace(second, run_id, "resume"):
            before = (await list_remote_refs(Repository(project.remote), project.remote, run_id)).everything
            await MakeWorktree(task=f"T-{number}", base=base).perform(site)
            with pytest.raises(RunFenced, match="taken over"):
                await zombie.publish()
            after = (await list_remote_refs(Repository(project.remote), project.remote, run_id)).everything
            assert after == before
    record("push", rounds=_ZOMBIES, taken=0)


async def test_zombie_that_begins_late_is_fenced(ada: Machine, bob: Machine, run_id: str, project: Project) -> None:
    async with open_workspace(ada, run_id, "resume") as workspace:
        epoch, mirror = workspace.effects.run.epoch, workspace.repository
    async with open_workspace(bob, run_id, "resume"):
        with pytest.raises(RunFenced):
            await RefTransport(mirror, run_id, project.remote, epoch).begin()
