"""The effects on a repository: how to perform each, and how to find out afterwards whether it happened."""

from holdfast.git.effects.base import EffectSite, GitEffect, ProbeOutcome, ProbeResult, WorktreeEffect
from holdfast.git.effects.branches import DeleteBranch, DropRefs, RestoreBranch, TakeOverHead
from holdfast.git.effects.cluster import DropClusterRefs, TakeOverRefs, read_epochs
from holdfast.git.effects.commits import CommitPlaceholder, CommitSeeds, CommitTask, UnwindPlaceholder
from holdfast.git.effects.merges import MergeInto, MergeTask, ReproduceConflicts
from holdfast.git.effects.publishing import OpenPullRequest, Push
from holdfast.git.effects.rewind import KeepSnapshots, RewindWorktree
from holdfast.git.effects.snapshots import CHECKED_SNAPSHOT, CaptureTree, RestoreSnapshot, TakeSnapshot
from holdfast.git.effects.worktrees import (
    REMOVED_SUFFIX,
    TRASH_PREFIX,
    LinkWorktree,
    MakeWorktree,
    RemoveWorktree,
    empty_trash,
)

__all__ = [
    "CHECKED_SNAPSHOT",
    "EFFECTS",
    "REMOVED_SUFFIX",
    "TRASH_PREFIX",
    "CaptureTree",
    "CommitPlaceholder",
    "CommitSeeds",
    "CommitTask",
    "DeleteBranch",
    "DropClusterRefs",
    "DropRefs",
    "EffectSite",
    "GitEffect",
    "KeepSnapshots",
    "LinkWorktree",
    "MakeWorktree",
    "MergeInto",
    "MergeTask",
    "OpenPullRequest",
    "ProbeOutcome",
    "ProbeResult",
    "Push",
    "RemoveWorktree",
    "ReproduceConflicts",
    "RestoreBranch",
    "RestoreSnapshot",
    "RewindWorktree",
    "TakeOverHead",
    "TakeOverRefs",
    "TakeSnapshot",
    "UnwindPlaceholder",
    "WorktreeEffect",
    "empty_trash",
    "read_epochs",
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
        CommitPlaceholder,
        UnwindPlaceholder,
        MergeTask,
        ReproduceConflicts,
        TakeSnapshot,
        CaptureTree,
        RestoreSnapshot,
        RewindWorktree,
        KeepSnapshots,
        MergeInto,
        Push,
        OpenPullRequest,
        TakeOverRefs,
        DropClusterRefs,
    )
}
