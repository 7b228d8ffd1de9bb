"""A task's work as one tree: captured before it is checked, committed to its branch, kept when the task fails."""

import os
from typing import NamedTuple

from holdfast.core.decide.tasks import attempts_of
from holdfast.core.events.task import TaskFailed
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.commit import UnresolvedConflicts
from holdfast.git.effects import CHECKED_SNAPSHOT, CaptureTree, TakeOverHead
from holdfast.git.snapshot import unregistered_repositories
from holdfast.git.worktrees.head import (
    abandoned_commits,
    can_be_taken_over,
    describe_stray_head,
    head_of,
    is_made_here,
    is_related,
)
from holdfast.git.worktrees.in_progress import merge_head


class Capture(NamedTuple):
    """The files of a task's worktree as a tree, with HEAD and the commit being merged at that moment.

    `nested` are repositories inside it, whose files are not in the tree; `dirty` are submodules with uncommitted
    changes.
    """

    tree: str
    head: str | None = None
    merging: str | None = None
    nested: tuple[str, ...] = ()
    dirty: tuple[str, ...] = ()


async def capture(workspace: Workspace, task: str, within: str | None = None) -> Capture:
    """Capture the files and keep them by a ref; only those of the tree `within`, if given."""
    worktree, repository = workspace.worktree(task), workspace.repository
    merging = merge_head(worktree.must_be_ours())
    before = await repository.commit_of(f"{workspace.place(task).snapshot_refs}/{CHECKED_SNAPSHOT}")
    result = await workspace.effects.perform(CaptureTree(task=task, replaces=before, within=within), task=task)
    tree = result.get("tree") or await repository.tree_of(result["commit"])
    nested = (path for path in result.get("nested", ()) if _holds_files(os.path.join(worktree.path, path)))
    links = await unregistered_repositories(repository, workspace.base(task), tree)
    return Capture(tree, result.get("head"), merging, (*nested, *links), tuple(result.get("dirty", ())))


def _holds_files(folder: str) -> bool:
    """True for a repository that contains more than its `.git`."""
    return any(name != ".git" for name in os.listdir(folder))


async def take_over_head(workspace: Workspace, task: str) -> str | None:
    """Bring the branch and HEAD of a task's worktree together when its agent committed elsewhere.

    Returns the problem, with the command that fixes it, if that is impossible.
    """
    worktree, base = workspace.worktree(task), workspace.base(task)
    head = await head_of(worktree)
    if head.is_on_own_branch:
        apart = head.commit is not None and not await is_related(worktree, base, head.commit)
        return describe_stray_head(worktree, head, base) if apart else None
    if head.commit is None or not await can_be_taken_over(worktree, head, base):
        return describe_stray_head(worktree, head, base)
    own = await is_made_here(worktree, head.own_tip or base, head.commit)
    effect = TakeOverHead(task=task, base=base, commit=head.commit, was=head.branch, own=own)
    await workspace.effects.perform(effect, task=task)
    return None


async def commits_left_behind(workspace: Workspace, task: str, tree: str) -> list[str]:
    """Return commits made in the worktree that its branch lacks, if the task changed nothing else."""
    base = workspace.base(task)
    if tree != await workspace.repository.tree_of(base):
        return []
    return await abandoned_commits(
        workspace.worktree(task), base, f"{workspace.place(task).snapshot_refs}/taken_back/*"
    )


async def fail_task(workspace: Workspace, task: str, reason: str) -> None:
    """Fail the task, and keep its work so far on its branch."""
    try:
        if await take_over_head(workspace, task) is None:
            await workspace.keep_failed(task, reason)  # this records the failure
            return
    except UnresolvedConflicts:
        pass
    await workspace.snapshot(task, "failed")  # during a merge, or on another branch, nothing can be committed
    attempts = attempts_of(workspace.effects.run.state, task)
    await workspace.effects.run.append(TaskFailed(task_id=task, error=reason, attempts=attempts))
