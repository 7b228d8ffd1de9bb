"""Brings a run's branches and worktrees in line with its log, after a crash or changes by other programs."""

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.state import BranchStatus
from holdfast.core.work.names import BRANCH_PREFIX, run_of_branch, worktree_names, worktree_names_at
from holdfast.core.work.reconciliation import (
    Finding,
    ObservedBranch,
    ObservedWorkspace,
    ObservedWorktree,
    Remedy,
    reconcile,
)
from holdfast.engine.workspace.restore import restore_branch, restore_worktree
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import DeleteBranch
from holdfast.git.repository import Repository, WorktreeInfo
from holdfast.git.worktrees.in_progress import operation_in_progress
from holdfast.git.worktrees.worktree import MovedWorktree, NotOurWorktree, UnlinkedWorktree, Worktree
from holdfast.leaf.errors import DecisionNeeded, Denied
from holdfast.leaf.files.directories import path_exists


class RunListing(NamedTuple):
    """The branches of runs by run, and their worktrees by run folder and relative path."""

    branches: dict[str, dict[str, str]]
    worktrees: dict[str, dict[str, WorktreeInfo]]


async def list_runs(repository: Repository, run_id: str | None = None) -> RunListing:
    """List what git has for the runs of a repository, or for one of them, in two git calls."""
    listing = RunListing({}, {})
    for name, commit in (await repository.refs(f"refs/heads/{BRANCH_PREFIX}{f'{run_id}/' if run_id else ''}")).items():
        owner = run_of_branch(name.removeprefix("refs/heads/"))
        if owner is not None:
            listing.branches.setdefault(owner, {})[name] = commit
    for fact in await repository.worktrees():
        path = os.path.realpath(fact.path)
        folder, leaf = os.path.split(path)
        home = os.path.dirname(folder) if os.path.basename(folder) == "tasks" else folder
        if home != folder or leaf == "workspace":
            listing.worktrees.setdefault(home, {})[os.path.relpath(path, home)] = fact
    return listing


async def observe(
    repository: Repository, run_id: str, folder: str, listing: RunListing | None = None
) -> ObservedWorkspace:
    """Observe the branches and worktrees of a run, in three git calls whatever their number; with a listing, in one.

    A branch at the commit of the run's own branch is merged: git is asked only about the others.
    """
    known = listing if listing is not None else await list_runs(repository, run_id)
    heads, main = known.branches.get(run_id, {}), f"refs/heads/{worktree_names(run_id).branch}"
    merged = {name: commit for name, commit in heads.items() if commit == heads.get(main)}
    if main in heads and len(merged) < len(heads):
        merged = await repository.refs(f"--merged={main}", f"refs/heads/{BRANCH_PREFIX}{run_id}/")
    branches = {
        name.removeprefix("refs/heads/"): ObservedBranch(commit, merged=name in merged)
        for name, commit in heads.items()
    }
    home = os.path.realpath(folder)
    return ObservedWorkspace(branches, _observe_worktrees(repository, run_id, home, known.worktrees.get(home, {})))


def _observe_worktrees(
    repository: Repository, run_id: str, home: str, ours: Mapping[str, WorktreeInfo]
) -> dict[str, ObservedWorktree]:
    found: dict[str, ObservedWorktree] = {}
    for path in sorted({*ours, *_worktree_folders(home)}):
        fact = ours.get(path)
        found[path] = _observe_worktree(repository, run_id, home, path)
        if (
            found[path] == ObservedWorktree()
            and fact is not None
            and fact.branch != worktree_names_at(run_id, path).branch
        ):
            found[path] = ObservedWorktree(other_branch=f"{path} is on {fact.branch or 'no branch'}")
    return found


def _worktree_folders(home: str) -> list[str]:
    """Return the folders that should be worktrees, whether or not git lists them."""
    tasks = os.path.join(home, "tasks")
    leaves = [leaf for leaf in os.listdir(tasks) if not leaf.startswith(".")] if os.path.isdir(tasks) else []
    return [*(["workspace"] if os.path.isdir(os.path.join(home, "workspace")) else []), *(f"tasks/{x}" for x in leaves)]


def _observe_worktree(repository: Repository, run_id: str, home: str, path: str) -> ObservedWorktree:
    worktree = Worktree(repository, os.path.join(home, path), worktree_names_at(run_id, path).branch)
    if not os.path.isdir(worktree.path):
        return ObservedWorktree(present=False)
    try:
        worktree.must_be_ours()
    except NotOurWorktree as error:
        moved, unlinked = isinstance(error, MovedWorktree), isinstance(error, UnlinkedWorktree)
        return ObservedWorktree(problem=str(error), moved=moved, unlinked=unlinked)
    return ObservedWorktree()


def require_no_user_operation(workspace: Workspace) -> None:
    """Refuse to continue while the user is in the middle of a rebase, merge or the like. Changes nothing.

    In a worktree with an interrupted turn, the operation was the agent's, which continues it. So may be one that began
    before the previous session's last event. An interrupted merge of our own is undone or continued.
    """
    state = workspace.effects.run.state
    newest = state.newest_session()
    if newest is None or newest.last is None:
        return
    last_event_time = datetime.fromisoformat(newest.last).timestamp()
    # after a power cut git's notes may be empty
    ours = {"", *(effect.arguments.get("commit") for effect in state.effects.values())}
    interrupted = {conversation.task for conversation in state.conversations.values() if conversation.turn is not None}
    for branch in (branch for branch in state.branches.values() if branch.task not in interrupted):
        with suppress(NotOurWorktree):  # missing, or something else: the step that needs it reports that
            tree = workspace.worktree(branch.task)
            operation = operation_in_progress(tree.must_be_ours())
            if operation is not None and operation.since > last_event_time and operation.note not in ours:
                problem = operation.describe(tree.path, tree.branch if tree.is_confined else None)
                raise DecisionNeeded(f"{problem}. Then continue with: holdfast resume {workspace.run_id}")


async def restore_run_branch(workspace: Workspace) -> list[Finding]:
    """Restore the run's own branch first: it determines what is merged and can be deleted."""
    name = workspace.place().branch
    is_in_progress = workspace.effects.run.state.branches[name].status is BranchStatus.IN_PROGRESS
    if not is_in_progress or await workspace.repository.commit_of(f"refs/heads/{name}") is not None:
        return []
    with suppress(Denied):  # checked again with all the others, and reported then
        await restore_branch(workspace, None)
        return [Finding(name, Remedy.RECREATE_BRANCH, f"{name} was lost; it is created again")]
    return []


async def reconcile_workspace(workspace: Workspace) -> list[Finding]:
    """Fix the differences, saving before anything is deleted. Returns every finding."""
    effects = workspace.effects
    observed = await observe(workspace.repository, workspace.run_id, effects.folder)
    findings = reconcile(workspace.run_id, effects.run.state.branches, observed)
    found = [
        await _try_remedy(workspace, finding, observed)
        for finding in sorted(findings, key=lambda finding: finding.remedy is not Remedy.REMOVE_WORKTREE)
    ]
    warned = [WarningLogged(message=effect.message) for effect in found if effect.remedy is Remedy.WARN]
    if warned:
        await effects.run.append(*warned)
    now = {effect.effect_id: effect for effect in await effects.settle_open_effects()}
    workspace.settled_effects = [now.get(effect.effect_id, effect) for effect in workspace.settled_effects]
    return found


async def _try_remedy(workspace: Workspace, finding: Finding, observed: ObservedWorkspace) -> Finding:
    """Apply a remedy and return the finding, with the error if it failed. Other findings are still handled."""
    try:
        await _apply_remedy(workspace, finding, observed)
    except Denied as error:
        return Finding(finding.subject, Remedy.WARN, f"{finding.message}, but: {error}", finding.task)
    return finding


async def _apply_remedy(workspace: Workspace, finding: Finding, observed: ObservedWorkspace) -> None:
    effects, task = workspace.effects, finding.task
    # the other remedies report it themselves, with details
    if finding.remedy in (Remedy.REMOVE_WORKTREE, Remedy.DELETE_BRANCH):
        await effects.run.append(
            WorkspaceReconciled(subject=finding.subject, action=finding.remedy, message=finding.message, task=task)
        )
    match finding.remedy:
        case Remedy.REMOVE_WORKTREE:
            await workspace.remove_worktree(task)
        case Remedy.RECREATE_BRANCH:
            await restore_branch(workspace, task)
        case Remedy.RECREATE_WORKTREE:
            await restore_worktree(workspace, task)
        case Remedy.LINK_WORKTREE:
            await workspace.relink(task)
            if not path_exists(workspace.worktree(task).path):  # another folder had replaced it
                await restore_worktree(workspace, task)
        case Remedy.DELETE_BRANCH:
            main = workspace.place().branch
            seen = observed.branches[finding.subject]
            await effects.perform(DeleteBranch(branch=finding.subject, commit=seen.commit, merged_into=main), task=task)
