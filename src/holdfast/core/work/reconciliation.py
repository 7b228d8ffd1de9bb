"""Compare branches and worktrees in the log with git: the two tables of the Resume Protocol.

Pure: facts in, findings out. Two facts that are not in the tables are checked too, because a deletion depends on them:
whether git agrees that a branch was merged, and whether a folder is the expected worktree.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.state import Branch, BranchStatus
from holdfast.core.work.names import worktree_names


class Remedy(StrEnum):
    NONE = "none"
    DELETE_BRANCH = "delete branch"
    RESUME_ON_BRANCH = "resume on branch"
    RECREATE_BRANCH = "recreate branch"
    REMOVE_WORKTREE = "remove worktree"
    RESUME_IN_WORKTREE = "resume in worktree"
    RECREATE_WORKTREE = "recreate worktree"
    RESET_BRANCH = "set back branch"  # in neither table: after a power cut
    LINK_WORKTREE = "link worktree"
    WARN = "warn"


LOSS_REMEDIES = frozenset(
    {Remedy.RECREATE_BRANCH, Remedy.RECREATE_WORKTREE, Remedy.RESET_BRANCH}
)  # an agent's work was lost before


class Finding(msgspec.Struct, frozen=True):
    """A table row that applies: the subject, the remedy, and a message for people."""

    subject: str
    remedy: Remedy
    message: str
    task: str | None = None


class ObservedBranch(msgspec.Struct, frozen=True):
    """A branch in git. `merged`: the run's own branch contains all of it."""

    commit: str
    merged: bool


class ObservedWorktree(msgspec.Struct, frozen=True):
    """A worktree in git and on the disk.

    `problem` says why an existing folder cannot be used; `moved`: git knows it at another path; `unlinked`: its `.git`
    was deleted or replaced. `other_branch` says which branch it is on, if not its own.
    """

    present: bool = True
    problem: str | None = None
    moved: bool = False
    unlinked: bool = False
    other_branch: str | None = None


class ObservedWorkspace(msgspec.Struct, frozen=True):
    """The branches of a run by name, and its worktrees by folder."""

    branches: Mapping[str, ObservedBranch]
    worktrees: Mapping[str, ObservedWorktree]


def reconcile(run_id: str, recorded: Mapping[str, Branch], observed: ObservedWorkspace) -> list[Finding]:
    return [*_branch_findings(recorded, observed.branches), *_worktree_findings(run_id, recorded, observed.worktrees)]


def _branch_findings(recorded: Mapping[str, Branch], observed: Mapping[str, ObservedBranch]) -> list[Finding]:
    """The five rows."""
    return [
        *(_branch_finding(name, branch, observed.get(name)) for name, branch in recorded.items()),
        *(_orphan_finding(name, "branch") for name in observed if name not in recorded),
    ]


def _branch_finding(name: str, branch: Branch, observed: ObservedBranch | None) -> Finding:
    is_over = branch.status is not BranchStatus.IN_PROGRESS
    if observed is None:
        if is_over:
            return Finding(name, Remedy.NONE, f"{name} is done and deleted, as expected", branch.task)
        return Finding(name, Remedy.RECREATE_BRANCH, f"{name} was lost; it is created again", branch.task)
    if not is_over:
        return Finding(name, Remedy.RESUME_ON_BRANCH, f"work continues on {name}", branch.task)
    if observed.merged:
        return Finding(name, Remedy.DELETE_BRANCH, f"{name} was merged, so it can be deleted", branch.task)
    message = f"{name} was done, but now has commits that were not merged; it is left alone"
    return Finding(name, Remedy.WARN, message, branch.task)


def _worktree_findings(
    run_id: str, recorded: Mapping[str, Branch], observed: Mapping[str, ObservedWorktree]
) -> list[Finding]:
    """The four rows."""
    places = {worktree_names(run_id, branch.task).folder: branch for branch in recorded.values()}
    found = [_worktree_finding(folder, branch, observed.get(folder)) for folder, branch in places.items()]
    found += [_orphan_finding(folder, "worktree") for folder in observed if folder not in places]
    return [finding for finding in found if finding.remedy is not Remedy.NONE]


def _worktree_finding(folder: str, branch: Branch, observed: ObservedWorktree | None) -> Finding:
    is_over = branch.status is not BranchStatus.IN_PROGRESS
    if observed is None and is_over:
        return Finding(folder, Remedy.NONE, f"{folder} is deleted, as expected", branch.task)
    problem = _problem(branch, observed, over=is_over) if observed is not None and observed.present else None
    if problem is not None:
        return Finding(folder, Remedy.WARN, f"{problem}; it is left alone", branch.task)
    if observed is not None and is_over:
        return Finding(
            folder, Remedy.REMOVE_WORKTREE, f"{folder} belongs to a finished task, so it can be deleted", branch.task
        )
    if observed is not None and observed.present and observed.unlinked:
        return Finding(folder, Remedy.LINK_WORKTREE, f"{folder} has lost its .git; it is linked again", branch.task)
    if observed is not None and observed.present:
        return Finding(folder, Remedy.RESUME_IN_WORKTREE, f"work continues in {folder}", branch.task)
    return Finding(folder, Remedy.RECREATE_WORKTREE, f"{folder} is missing; it is created again", branch.task)


def _problem(branch: Branch, observed: ObservedWorktree, *, over: bool) -> str | None:
    """Why a folder is left alone. A task in progress returns its worktree to its branch by itself."""
    if observed.unlinked and branch.base is not None:
        return None
    if observed.other_branch is not None and (over or branch.task is None):
        return observed.other_branch
    return observed.problem


def _orphan_finding(name: str, kind: str) -> Finding:
    return Finding(name, Remedy.WARN, f"{name} is a {kind} that is not in the log; it is left alone")
