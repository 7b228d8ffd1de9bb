"""The effects on a repository: what to do, how to do it, and how to ask afterwards whether it was done."""

from holdfast.git.effects.base import GitEffect, Happened, InWorktree, Probe, Site
from holdfast.git.effects.branches import DeleteBranch, DropRefs, RestoreBranch, TakeOverHead
from holdfast.git.effects.commits import CommitSeeds, CommitTask, KeepFailed, UnwindFailed
from holdfast.git.effects.merges import BringConflicts, MergeInto, MergeTask
from holdfast.git.effects.publishing import OpenPullRequest, Push
from holdfast.git.effects.snapshots import CHECKED, CaptureTree, RestoreSnapshot, TakeSnapshot
from holdfast.git.effects.worktrees import REMOVED, TRASH, LinkWorktree, MakeWorktree, RemoveWorktree, empty_trash

__all__ = [
    "CHECKED",
    "EFFECTS",
    "REMOVED",
    "TRASH",
    "BringConflicts",
    "CaptureTree",
    "CommitSeeds",
    "CommitTask",
    "DeleteBranch",
    "DropRefs",
    "GitEffect",
    "Happened",
    "InWorktree",
    "KeepFailed",
    "LinkWorktree",
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
    "TakeOverHead",
    "TakeSnapshot",
    "UnwindFailed",
    "empty_trash",
]

EFFECTS: dict[str, type[GitEffect]] = {
    effect.kind: effect
    for effect in (
        MakeWorktree,
        LinkWorktree,
        RemoveWorktree,
        DeleteBranch,
        RestoreBranch,
        TakeOverHead,
        DropRefs,
        CommitSeeds,
        CommitTask,
        KeepFailed,
        UnwindFailed,
        MergeTask,
        BringConflicts,
        TakeSnapshot,
        CaptureTree,
        RestoreSnapshot,
        MergeInto,
        Push,
        OpenPullRequest,
    )
}
