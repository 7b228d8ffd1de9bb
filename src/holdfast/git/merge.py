"""Merging a task's branch into the run's: tried first without touching any tree, so never half done in it."""

from enum import StrEnum
from typing import NamedTuple

from holdfast.git.commit import EFFECT, RUN, Signature, identity
from holdfast.git.worktree import Worktree, status_of
from holdfast.leaf.errors import Denied


class MergeOutcome(StrEnum):
    MERGED = "merged"
    ALREADY = "already merged"
    CONFLICTS = "conflicts"


class Merged(NamedTuple):
    outcome: MergeOutcome
    commit: str | None = None
    conflicts: tuple[str, ...] = ()


async def merge_task(run: Worktree, task_branch: str, signature: Signature) -> Merged:
    """Merge into the run's branch, in its worktree, which must be clean."""
    await run.must_be_ours()
    repository = run.repository
    ours, theirs = f"refs/heads/{run.branch}", f"refs/heads/{task_branch}"
    if await repository.is_ancestor(theirs, ours):
        return Merged(MergeOutcome.ALREADY, await repository.commit_of(ours))
    conflicts = await conflicts_between(run, theirs)
    if conflicts:
        return Merged(MergeOutcome.CONFLICTS, conflicts=conflicts)
    if not (await status_of(run)).clean:
        raise Denied(f"{run.path} has changes of its own; commit or salvage them before a merge")
    subject = f"Merge task {signature.task}" if signature.task else f"Merge {task_branch}"
    message = f"{subject}\n\n{RUN}: {signature.run}\n{EFFECT}: {signature.effect}"
    await run.git.do(*await identity(run.git), "merge", "--no-ff", "--no-edit", "--quiet", "-m", message, theirs)
    return Merged(MergeOutcome.MERGED, await repository.commit_of(ours))


async def conflicts_between(run: Worktree, theirs: str) -> tuple[str, ...]:
    """The paths that would conflict. Asked of git without any worktree."""
    answer = await run.repository.git.run(
        "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", f"refs/heads/{run.branch}", theirs
    )
    if answer.code == 0:
        return ()
    return tuple(answer.fields()[1:])


async def bring_conflicts(task: Worktree, run_branch: str) -> tuple[str, ...]:
    """Merge the run's branch into the task's worktree and leave the conflicts there, to be resolved in it."""
    await task.must_be_ours()
    await task.git.run(
        *await identity(task.git), "merge", "--no-ff", "--no-edit", "--quiet", f"refs/heads/{run_branch}"
    )
    answer = await task.git.ask("diff", "--name-only", "--diff-filter=U", "-z")
    return tuple(answer.fields())
