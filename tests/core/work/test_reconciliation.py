"""The log's branches and worktrees against git's: every row of the Resume Protocol's two tables, and two of our own."""

import pytest

from holdfast.core.state import Branch, BranchStatus
from holdfast.core.work.names import worktree_names
from holdfast.core.work.reconciliation import (
    Finding,
    ObservedBranch,
    ObservedWorkspace,
    ObservedWorktree,
    Remedy,
    reconcile,
)

RUN = "auth-abc234"
TASK = "T-1"
BRANCH = worktree_names(RUN, TASK).branch
FOLDER = worktree_names(RUN, TASK).folder

MERGED, IN_PROGRESS, DELETED = BranchStatus.MERGED, BranchStatus.IN_PROGRESS, BranchStatus.DELETED
THERE = ObservedWorktree()
ENTRY_ONLY = ObservedWorktree(present=False)
NOT_OURS = ObservedWorktree(problem="tasks/T-1 is no worktree any more")
UNLINKED = ObservedWorktree(problem="tasks/T-1 has no .git", unlinked=True)
ELSEWHERE = ObservedWorktree(other_branch="tasks/T-1 is on mine")
MOVED = ObservedWorktree(problem="tasks/T-1 was moved", moved=True)


def seen(*, merged: bool) -> ObservedBranch:
    return ObservedBranch("c" * 40, merged=merged)


def findings(
    status: BranchStatus | None, branch: ObservedBranch | None = None, worktree: ObservedWorktree | None = None
) -> dict[str, Finding]:
    """What is found of one task, by what it is about."""
    believed = {BRANCH: Branch(status=status, task=TASK, base="b" * 40)} if status is not None else {}
    observed = ObservedWorkspace(
        {BRANCH: branch} if branch is not None else {}, {FOLDER: worktree} if worktree is not None else {}
    )
    return {finding.subject: finding for finding in reconcile(RUN, believed, observed)}


@pytest.mark.parametrize(
    ("status", "branch", "remedy"),
    [
        (MERGED, seen(merged=True), Remedy.DELETE_BRANCH),
        (MERGED, None, Remedy.NONE),
        (IN_PROGRESS, seen(merged=False), Remedy.RESUME_ON_BRANCH),
        (IN_PROGRESS, None, Remedy.RECREATE_BRANCH),
        (None, seen(merged=False), Remedy.WARN),
    ],
    ids=["merged-exists", "merged-gone", "in-progress-exists", "in-progress-gone", "no-record"],
)
def test_the_five_rows_of_branches(status: BranchStatus | None, branch: ObservedBranch | None, remedy: Remedy) -> None:
    assert findings(status, branch)[BRANCH].remedy is remedy


@pytest.mark.parametrize(
    ("status", "worktree", "remedy"),
    [
        (MERGED, THERE, Remedy.REMOVE_WORKTREE),
        (IN_PROGRESS, THERE, Remedy.RESUME_IN_WORKTREE),
        (IN_PROGRESS, None, Remedy.RECREATE_WORKTREE),
        (None, THERE, Remedy.WARN),
    ],
    ids=["merged-exists", "in-progress-exists", "in-progress-gone", "no-record"],
)
def test_the_four_rows_of_worktrees(
    status: BranchStatus | None, worktree: ObservedWorktree | None, remedy: Remedy
) -> None:
    assert findings(status, seen(merged=False), worktree)[FOLDER].remedy is remedy


def test_a_branch_that_the_log_calls_merged_and_git_does_not_is_left_alone() -> None:
    found = findings(MERGED, seen(merged=False))[BRANCH]
    assert found.remedy is Remedy.WARN
    assert "not merged" in found.message


@pytest.mark.parametrize("status", [MERGED, IN_PROGRESS])
@pytest.mark.parametrize("worktree", [NOT_OURS, MOVED], ids=["not-ours", "moved"])
def test_a_folder_that_is_not_our_worktree_is_left_alone(status: BranchStatus, worktree: ObservedWorktree) -> None:
    found = findings(status, seen(merged=True), worktree)[FOLDER]
    assert found.remedy is Remedy.WARN
    assert worktree.problem is not None
    assert worktree.problem in found.message


@pytest.mark.parametrize(
    ("status", "worktree", "remedy"),
    [
        (MERGED, UNLINKED, Remedy.REMOVE_WORKTREE),
        (IN_PROGRESS, UNLINKED, Remedy.LINK_WORKTREE),
        (None, UNLINKED, Remedy.WARN),
        (MERGED, ELSEWHERE, Remedy.WARN),
        (IN_PROGRESS, ELSEWHERE, Remedy.RESUME_IN_WORKTREE),
    ],
)
def test_a_worktree_that_lost_its_git_or_is_on_another_branch(
    status: BranchStatus | None, worktree: ObservedWorktree, remedy: Remedy
) -> None:
    assert findings(status, seen(merged=True), worktree)[FOLDER].remedy is remedy


@pytest.mark.parametrize(
    ("status", "remedy"), [(MERGED, Remedy.REMOVE_WORKTREE), (IN_PROGRESS, Remedy.RECREATE_WORKTREE)]
)
def test_an_entry_of_git_without_a_folder_is_dropped_or_filled_again(status: BranchStatus, remedy: Remedy) -> None:
    assert findings(status, seen(merged=True), ENTRY_ONLY)[FOLDER].remedy is remedy


def test_a_branch_that_was_deleted_stands_as_one_that_was_merged() -> None:
    assert findings(DELETED)[BRANCH].remedy is Remedy.NONE
    assert findings(DELETED, seen(merged=True))[BRANCH].remedy is Remedy.DELETE_BRANCH
    assert findings(DELETED, seen(merged=False))[BRANCH].remedy is Remedy.WARN


def test_a_worktree_that_is_done_and_gone_is_not_worth_a_word() -> None:
    assert list(findings(MERGED)) == [BRANCH]


def test_nothing_on_either_side_is_nothing_to_tell() -> None:
    assert findings(None) == {}


def test_only_orphans_and_strangers_are_of_no_task() -> None:
    assert findings(None, seen(merged=True), THERE)[BRANCH].task is None
    assert {finding.task for finding in findings(IN_PROGRESS, None, None).values()} == {TASK}


def test_the_runs_own_branch_has_the_folder_called_workspace() -> None:
    main = worktree_names(RUN)
    believed = {main.branch: Branch(status=IN_PROGRESS, base="b" * 40)}
    found = reconcile(RUN, believed, ObservedWorkspace({main.branch: seen(merged=True)}, {main.folder: THERE}))
    assert [(finding.subject, finding.remedy) for finding in found] == [
        (main.branch, Remedy.RESUME_ON_BRANCH),
        ("workspace", Remedy.RESUME_IN_WORKTREE),
    ]
