"""The effects on a repository: what to do, how to do it, and how to ask afterwards whether it was done."""

from holdfast.git.effects.base import GitEffect, Happened, InWorktree, Probe, Site
from holdfast.git.effects.branches import DeleteBranch, DropRefs, RestoreBranch
from holdfast.git.effects.commits import CommitTask, KeepFailed, UnwindFailed
from holdfast.git.effects.merges import BringConflicts, MergeInto, MergeTask
from holdfast.git.effects.publishing import OpenPullRequest, Push
from holdfast.git.effects.snapshots import RestoreSnapshot, TakeSnapshot
from holdfast.git.effects.worktrees import REMOVED, TRASH, MakeWorktree, RemoveWorktree, empty_trash

__all__ = [
    "EFFECTS",
    "REMOVED",
    "TRASH",
    "BringConflicts",
    "CommitTask",
    "DeleteBranch",
    "DropRefs",
    "GitEffect",
    "Happened",
    "InWorktree",
    "KeepFailed",
    "MakeWorktree",
    "MergeInto",
    "MergeTask",
    "OpenPullRequest",
    "Probe",
    "Push",
    "RemoveWorktree",
    "RestoreBranch",
    "RestoreSnapshot",
    "Site",
    "TakeSnapshot",
    "UnwindFailed",
    "empty_trash",
]

EFFECTS: dict[str, type[GitEffect]] = {
    effect.kind: effect
    for effect in (
        MakeWorktree,
        RemoveWorktree,
        DeleteBranch,
        RestoreBranch,
        DropRefs,
        CommitTask,
        KeepFailed,
        UnwindFailed,
        MergeTask,
        BringConflicts,
        TakeSnapshot,
        RestoreSnapshot,
        MergeInto,
        Push,
        OpenPullRequest,
    )
}
