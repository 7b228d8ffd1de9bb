"""What the log believes of branches and worktrees against what git shows: the Resume Protocol's two tables.

Pure: facts in, findings out. Two facts that the tables do not ask for are looked at too, because deleting hangs on
them: whether git agrees that a branch was merged, and whether a folder is the worktree that it should be.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.state import Branch, BranchStatus
from holdfast.core.work.names import place_of


class Remedy(StrEnum):
    NONE = "none"
    DELETE_BRANCH = "delete branch"
    RESUME_ON_BRANCH = "resume on branch"
    RECREATE_BRANCH = "recreate branch"
    REMOVE_WORKTREE = "remove worktree"
    RESUME_IN_WORKTREE = "resume in worktree"
    RECREATE_WORKTREE = "recreate worktree"
    SET_BACK = "set back branch"  # in neither table: after a power cut
    LINK_WORKTREE = "link worktree"
    WARN = "warn"


LOSSES = frozenset({Remedy.RECREATE_BRANCH, Remedy.RECREATE_WORKTREE, Remedy.SET_BACK})  # an agent's work went before


class Finding(msgspec.Struct, frozen=True):
    """One row of a table that applies: to what, what to do, and why, in words for people."""

    subject: str
    remedy: Remedy
    told: str
    task: str | None = None


class BranchSeen(msgspec.Struct, frozen=True):
    """A branch as git shows it. `merged` when the run's own branch has all of it."""

    commit: str
    merged: bool


class WorktreeSeen(msgspec.Struct, frozen=True):
    """A worktree as git and the disk show it.

    `problem` says why a folder that is there cannot be worked in; `moved` when git knows it at another place,
    `unlinked` when its `.git` was deleted or replaced. `elsewhere` tells which branch it is on, when not on its own.
    """

    present: bool = True
    problem: str | None = None
    moved: bool = False
    unlinked: bool = False
    elsewhere: str | None = None


class Observed(msgspec.Struct, frozen=True):
    """What there is of one run: its branches by name, its worktrees by their folder in the run's own."""

    branches: Mapping[str, BranchSeen]
    worktrees: Mapping[str, WorktreeSeen]


def reconcile(run_id: str, believed: Mapping[str, Branch], observed: Observed) -> list[Finding]:
    return [*_branches(believed, observed.branches), *_worktrees(run_id, believed, observed.worktrees)]


def _branches(believed: Mapping[str, Branch], seen: Mapping[str, BranchSeen]) -> list[Finding]:
    """The five rows."""
    return [
        *(_branch(name, branch, seen.get(name)) for name, branch in believed.items()),
        *(_orphan(name, "branch") for name in seen if name not in believed),
    ]


def _branch(name: str, branch: Branch, seen: BranchSeen | None) -> Finding:
    over = branch.status is not BranchStatus.IN_PROGRESS
    if seen is None:
        if over:
            return Finding(name, Remedy.NONE, f"{name} is done and gone, as it should be", branch.task)
        return Finding(name, Remedy.RECREATE_BRANCH, f"{name} was lost; it is made again", branch.task)
    if not over:
        return Finding(name, Remedy.RESUME_ON_BRANCH, f"work goes on on {name}", branch.task)
    if seen.merged:
        return Finding(name, Remedy.DELETE_BRANCH, f"{name} was merged, so it can go", branch.task)
    told = f"{name} was done, and now has commits that were not merged; it is left alone"
    return Finding(name, Remedy.WARN, told, branch.task)


def _worktrees(run_id: str, believed: Mapping[str, Branch], seen: Mapping[str, WorktreeSeen]) -> list[Finding]:
    """The four rows."""
    places = {place_of(run_id, branch.task).folder: branch for branch in believed.values()}
    found = [_worktree(folder, branch, seen.get(folder)) for folder, branch in places.items()]
    found += [_orphan(folder, "worktree") for folder in seen if folder not in places]
    return [finding for finding in found if finding.remedy is not Remedy.NONE]


def _worktree(folder: str, branch: Branch, seen: WorktreeSeen | None) -> Finding:
    over = branch.status is not BranchStatus.IN_PROGRESS
    if seen is None and over:
        return Finding(folder, Remedy.NONE, f"{folder} is gone, as it should be", branch.task)
    problem = _problem(branch, seen, over=over) if seen is not None and seen.present else None
    if problem is not None:
        return Finding(folder, Remedy.WARN, f"{problem}; it is left alone", branch.task)
    if seen is not None and over:
        return Finding(folder, Remedy.REMOVE_WORKTREE, f"{folder} is of a task that is done, so it can go", branch.task)
    if seen is not None and seen.present and seen.unlinked:
        return Finding(folder, Remedy.LINK_WORKTREE, f"{folder} has lost its .git; it is linked again", branch.task)
    if seen is not None and seen.present:
        return Finding(folder, Remedy.RESUME_IN_WORKTREE, f"work goes on in {folder}", branch.task)
    return Finding(folder, Remedy.RECREATE_WORKTREE, f"{folder} is missing; it is made again", branch.task)


def _problem(branch: Branch, seen: WorktreeSeen, *, over: bool) -> str | None:
    """Why nothing is done with a folder. A task that goes on brings its worktree back to its branch by itself."""
    if seen.unlinked and branch.base is not None:
        return None
    if seen.elsewhere is not None and (over or branch.task is None):
        return seen.elsewhere
    return seen.problem


def _orphan(name: str, what: str) -> Finding:
    return Finding(name, Remedy.WARN, f"{name} is a {what} that the log knows nothing of; it is left alone")
