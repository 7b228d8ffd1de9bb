"""The consequences of an effect for the run: events that are written in one commit with its outcome."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.decide.tasks import attempts_of
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchDeleted, BranchMerged
from holdfast.core.events.conversation import ConversationTokenStored
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.session import SeedsCommitted
from holdfast.core.events.task import TaskFailed
from holdfast.core.events.work import CHANGED_BY_HOOK, CommitChanged, TaskCommitted
from holdfast.core.state import Branch, BranchStatus, RunState
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.names import worktree_names
from holdfast.git.effects import (
    CommitPlaceholder,
    CommitSeeds,
    CommitTask,
    DeleteBranch,
    GitEffect,
    LinkWorktree,
    MakeWorktree,
    MergeTask,
    ProbeResult,
    RestoreBranch,
    TakeOverHead,
    TakeOverRefs,
)


def outcome_events(state: RunState, run_id: str, effect: GitEffect | None, probe: ProbeResult) -> list[Event]:
    """The same whether the effect was observed or found by a probe."""
    match effect:
        case CommitTask() | CommitPlaceholder():
            return _commit_events(state, effect, probe.result)
        case CommitSeeds():
            branch = worktree_names(run_id).branch
            created = BranchCreated(name=branch, base=effect.base)
            commit = probe.result["commit"]
            return [created, SeedsCommitted(commit=commit, branch=branch, changed=effect.changed, seeds=effect.seeds)]
        case MakeWorktree() | RestoreBranch() | DeleteBranch() | MergeTask():
            return _branch_events(state, run_id, effect, probe.result)
        case TakeOverHead():
            return [WarningLogged(message=_describe_head_takeover(effect, worktree_names(run_id, effect.task).branch))]
        case TakeOverRefs() if "moved" in probe.result:  # the agents' own sessions are files of the other machine
            with_session = [name for name, known in state.conversations.items() if known.token is not None]
            return [ConversationTokenStored(conversation=name, token=None) for name in with_session]
        case LinkWorktree():
            return [WarningLogged(message=_describe_relink(worktree_names(run_id, effect.task).folder, probe.result))]
    return []


def _commit_events(state: RunState, effect: CommitTask | CommitPlaceholder, result: Mapping[str, Any]) -> list[Event]:
    match effect:
        case CommitTask() if effect.task is not None and "tree" in result:
            return [CommitChanged(task_id=effect.task, reason=CHANGED_BY_HOOK, **result)]
        case CommitTask() if effect.task is not None:
            return [TaskCommitted(task_id=effect.task, commit=result.get("commit"))]
        case CommitPlaceholder() if effect.task in state.tasks and (
            state.tasks[effect.task].status is TaskStatus.IN_PROGRESS
        ):
            return [TaskFailed(task_id=effect.task, error=effect.reason, attempts=attempts_of(state, effect.task))]
    return []


def _branch_events(
    state: RunState,
    run_id: str,
    effect: MakeWorktree | RestoreBranch | DeleteBranch | MergeTask,
    result: Mapping[str, Any],
) -> list[Event]:
    match effect:
        case MakeWorktree() if not _is_begun(state.branches.get(worktree_names(run_id, effect.task).branch)):
            base = result.get("base", effect.base)
            return [BranchCreated(name=worktree_names(run_id, effect.task).branch, base=base, task=effect.task)]
        case RestoreBranch():
            return [BranchCreated(name=worktree_names(run_id, effect.task).branch, base=effect.base, task=effect.task)]
        case MergeTask():
            warnings = reset_warnings(result)
            name, into = worktree_names(run_id, effect.task).branch, worktree_names(run_id).branch
            if not _is_in_progress(state.branches.get(name)):
                return warnings
            return [*warnings, BranchMerged(name=name, target=into, conflicts=False)]
        case DeleteBranch() if _exists(state.branches.get(effect.branch)):
            return [BranchDeleted(name=effect.branch)]
    return []


def _is_begun(branch: Branch | None) -> bool:
    return branch is not None and _is_in_progress(branch) and branch.base is not None


def _is_in_progress(branch: Branch | None) -> bool:
    return branch is not None and branch.status is BranchStatus.IN_PROGRESS


def _exists(branch: Branch | None) -> bool:
    return branch is not None and branch.status is not BranchStatus.DELETED


def _describe_head_takeover(effect: TakeOverHead, branch: str) -> str:
    commit = effect.commit[:12]
    if effect.was is None:
        return f"{effect.task}: HEAD was detached at {commit}; {branch} was moved there"
    return (
        f"{effect.task}: the work was on the branch {effect.was}; {branch} was moved to its commit {commit}, "
        f"and {effect.was} is unchanged"
    )


def _describe_relink(folder: str, result: Mapping[str, Any]) -> str:
    sentences = [f"{folder} had lost its .git; it was linked to the repository again, with its files as they were"]
    if result.get("set_aside"):
        sentences.append(f"what was in its place is in {result['set_aside']}")
    if result.get("salvaged"):
        sentences.append(f"its commits are kept as {', '.join(result['salvaged'])}")
    return "; ".join(sentences)


def reset_warnings(merge_result: Mapping[str, Any]) -> list[Event]:
    """Return warnings from a merge result: commits that were removed from a branch, and how to restore them."""
    found: dict[str, str | None] = merge_result.get("set_back", {})
    how = "`git merge {}` brings back what it had"
    return [
        WarningLogged(
            message=f"{branch} was set back or rewritten by somebody else; "
            + (how.format(kept) if kept is not None else "git has no more what it had")
        )
        for branch, kept in found.items()
    ]
