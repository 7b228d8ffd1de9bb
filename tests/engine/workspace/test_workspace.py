"""What a run does with its worktrees and branches, step by step."""

import os

import pytest

from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.errors import BadInput, Denied
from tests.support.projects import Project, write


async def commit_task(workspace: Workspace, task_id: str, files: dict[str, str]) -> str | None:
    worktree = await workspace.open_worktree(task_id)
    write(worktree.path, files)
    return await workspace.commit(task_id, f"Do {task_id}")


async def test_open_worktree_again_keeps_what_is_in_it(workspace: Workspace) -> None:
    first = await workspace.open_worktree("T-1")
    write(first.path, {"new.txt": "new\n"})
    second = await workspace.open_worktree("T-1")
    assert second.path == first.path
    assert os.path.exists(os.path.join(second.path, "new.txt"))


async def test_commit_of_nothing_is_none(workspace: Workspace) -> None:
    assert await commit_task(workspace, "T-1", {}) is None


async def test_branch_without_a_worktree_has_no_base(workspace: Workspace) -> None:
    with pytest.raises(BadInput, match="open its worktree first"):
        workspace.base("T-1")


async def test_tasks_are_merged_in_the_given_order(workspace: Workspace, project: Project) -> None:
    await commit_task(workspace, "T-1", {"1.txt": "1\n"})
    await commit_task(workspace, "T-2", {"2.txt": "2\n"})
    merged = await workspace.merge(["T-2", "T-1"])
    assert [result.task for result in merged if result.commit is not None] == ["T-2", "T-1"]
    files = project.git("ls-tree", "--name-only", workspace.place().branch).split()
    assert files == ["1.txt", "2.txt", "a.txt"]


async def test_conflict_does_not_stop_later_merges(workspace: Workspace, project: Project) -> None:
    await commit_task(workspace, "T-1", {"a.txt": "one\n"})
    await commit_task(workspace, "T-2", {"a.txt": "two\n"})
    await commit_task(workspace, "T-3", {"3.txt": "3\n"})
    first, second, third = await workspace.merge(["T-1", "T-2", "T-3"])
    assert first.commit is not None
    assert second.commit is None
    assert second.conflicts == ("a.txt",)
    assert third.commit is not None
    assert project.show(f"{workspace.place().branch}:a.txt") == "one"


async def test_late_task_starts_from_merged_work(workspace: Workspace) -> None:
    await commit_task(workspace, "T-1", {"1.txt": "1\n"})
    await workspace.merge(["T-1"])
    late = await workspace.open_worktree("T-2")
    assert os.path.exists(os.path.join(late.path, "1.txt"))


async def test_snapshot_is_restored_and_what_it_replaces_is_salvaged(workspace: Workspace, project: Project) -> None:
    worktree = await workspace.open_worktree("T-1")
    write(worktree.path, {"a.txt": "before\n"})
    snapshot = await workspace.snapshot("T-1", "turn-1")
    write(worktree.path, {"a.txt": "after\n"})
    salvaged = await workspace.restore("T-1", snapshot)
    with open(os.path.join(worktree.path, "a.txt"), encoding="utf-8") as file:
        assert file.read() == "before\n"
    assert project.show(f"{salvaged}:a.txt") == "after"


async def test_failed_work_is_kept_as_a_placeholder_and_unwound(workspace: Workspace) -> None:
    worktree = await workspace.open_worktree("T-1")
    write(worktree.path, {"half.txt": "half\n"})
    placeholder = await workspace.keep_failed("T-1", "iter_cap")
    assert await workspace.has_placeholder("T-1")
    with pytest.raises(Denied, match="--on-issue retry"):
        await workspace.merge(["T-1"])
    assert await workspace.unwind_failed("T-1") == placeholder
    assert not await workspace.has_placeholder("T-1")
    assert os.path.exists(os.path.join(worktree.path, "half.txt"))


async def test_removed_worktree_leaves_uncommitted_work_in_salvage(workspace: Workspace, project: Project) -> None:
    worktree = await workspace.open_worktree("T-1")
    write(worktree.path, {"new.txt": "new\n"})
    salvaged = await workspace.remove_worktree("T-1")
    assert not os.path.exists(worktree.path)
    assert project.show(f"{salvaged}:new.txt") == "new"


async def test_finished_task_leaves_no_worktree_and_no_branch(workspace: Workspace, project: Project) -> None:
    await commit_task(workspace, "T-1", {"1.txt": "1\n"})
    await workspace.merge(["T-1"])
    await workspace.delete_worktree_and_branch("T-1")
    assert project.branches() == [workspace.place().branch]
    assert project.worktrees() == [workspace.worktree().path]
    assert project.salvage() == []


async def test_deleted_branch_is_named_with_the_command_that_restores_it(
    workspace: Workspace, project: Project
) -> None:
    await workspace.open_worktree("T-1")
    branch = workspace.place("T-1").branch
    project.git("update-ref", "-d", f"refs/heads/{branch}")
    with pytest.raises(Denied, match=f"git branch {branch} COMMIT"):
        await workspace.tip("T-1")
