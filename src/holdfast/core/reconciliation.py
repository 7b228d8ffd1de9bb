"""What the log believes of branches and worktrees against what git shows: the Resume Protocol's two tables.

Pure: facts in, findings out. Whoever acts on them does so with salvage first.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.state import Branch, BranchStatus


class Remedy(StrEnum):
    NONE = "none"
    DELETE_BRANCH = "delete branch"
    RESUME_ON_BRANCH = "resume on branch"
    RECREATE_BRANCH = "recreate branch"
    REMOVE_WORKTREE = "remove worktree"
    RESUME_IN_WORKTREE = "resume in worktree"
    RECREATE_WORKTREE = "recreate worktree"
    WARN = "warn"


class Finding(msgspec.Struct, frozen=True):
    """One row of a table that applies: to what, what to do, and why in words for people."""

    subject: str
    remedy: Remedy
    told: str
    task: str | None = None


class BranchSeen(msgspec.Struct, frozen=True):
    """A branch as git shows it."""

    name: str
    commit: str


class WorktreeSeen(msgspec.Struct, frozen=True):
    """A worktree as git shows it. `present` is False when its folder is gone."""

    path: str
    branch: str | None
    present: bool = True


def reconcile_branches(believed: Mapping[str, Branch], seen: Mapping[str, BranchSeen]) -> list[Finding]:
    """The five rows. `seen` are the branches under the run's own prefix."""
    findings = [_branch(name, branch, name in seen) for name, branch in believed.items()]
    findings += [
        Finding(name, Remedy.WARN, f"{name} is a branch that the log knows nothing of; it is left alone")
        for name in seen
        if name not in believed
    ]
    return findings


def _branch(name: str, branch: Branch, exists: bool) -> Finding:  # noqa: FBT001 - the second axis of the table
    done = branch.status is not BranchStatus.IN_PROGRESS
    match done, exists:
        case True, True:
            return Finding(name, Remedy.DELETE_BRANCH, f"{name} was merged and can go", branch.task)
        case True, False:
            return Finding(name, Remedy.NONE, f"{name} was merged and is gone, as it should be", branch.task)
        case False, True:
            return Finding(name, Remedy.RESUME_ON_BRANCH, f"work goes on on {name}", branch.task)
        case _:
            return Finding(name, Remedy.RECREATE_BRANCH, f"{name} was lost; its task starts again", branch.task)


def reconcile_worktrees(believed: Mapping[str, Branch], seen: Mapping[str, WorktreeSeen]) -> list[Finding]:
    """The four rows. `seen` are the worktrees under the run's own folder, by the branch they are on."""
    findings: list[Finding] = []
    for name, branch in believed.items():
        worktree = seen.get(name)
        there = worktree is not None and worktree.present
        if branch.status is not BranchStatus.IN_PROGRESS:
            if worktree is not None:
                told = f"{worktree.path} belongs to {name}, which was merged; it can go"
                findings.append(Finding(worktree.path, Remedy.REMOVE_WORKTREE, told, branch.task))
        elif worktree is not None and there:
            told = f"work goes on in {worktree.path}"
            findings.append(Finding(worktree.path, Remedy.RESUME_IN_WORKTREE, told, branch.task))
        else:
            told = f"the worktree of {name} is missing; it is made again"
            findings.append(Finding(name, Remedy.RECREATE_WORKTREE, told, branch.task))
    findings += [
        Finding(tree.path, Remedy.WARN, f"{tree.path} is a worktree that the log knows nothing of; it is left alone")
        for name, tree in seen.items()
        if name not in believed
    ]
    return findings
