"""Ends a run: saves what would be lost, then deletes its branches and worktrees.

`archive` keeps the log; `reset` also deletes the run's folder. If one is interrupted, calling it again continues it.
"""

import os
from typing import NamedTuple

from holdfast.core.events.session import RunArchived
from holdfast.core.state import RunInfo, RunState
from holdfast.core.work.names import SALVAGE_REFS, SNAPSHOT_REFS, chain_ref, worktree_names, worktree_names_at
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.reconcile import observe
from holdfast.engine.workspace.repository import open_repository
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.git.effects import REMOVED_SUFFIX, DeleteBranch, DropRefs, RemoveWorktree
from holdfast.git.worktrees.link import UNSAVED_SUFFIX
from holdfast.leaf.errors import Denied, NothingToDo, RunOwned
from holdfast.leaf.files.directories import path_exists


class RunResources(NamedTuple):
    """What a run has in a repository: branches, worktrees, and commits that no branch of the user contains."""

    branches: tuple[str, ...]
    worktrees: tuple[str, ...]
    unmerged: int


async def run_resources(home: Home, run_id: str) -> RunResources | None:
    """Return what `reset` would delete; None for a run without a repository."""
    view = await view_run(home, run_id)
    if view.holder is not None:
        raise RunOwned(
            f"run {run_id} is owned by pid {view.holder.pid} since {view.holder.since}; "
            f"stop it first: holdfast stop {run_id}"
        )
    if not _has_repository(home, view.state.run, run_id):
        return None
    repository = await open_repository(home, view.state.run, run_id)
    observed = await observe(repository, run_id, view.folder)
    unmerged = 0
    if observed.branches:
        tips = sorted({seen.commit for seen in observed.branches.values()})
        unmerged = await repository.count_unshared(tips)
    return RunResources(tuple(observed.branches), tuple(observed.worktrees), unmerged)


async def archive(home: Home, run_id: str) -> list[str]:
    """Delete the run's branches and worktrees and keep its log. Returns the refs of what was saved."""
    state = (await view_run(home, run_id)).state
    if _is_archived(state) and list(state.sessions.values())[-1].ended:
        raise NothingToDo(f"run {run_id} is archived already")
    async with open_workspace(home, run_id, "archive") as workspace:  # repairs a log whose last line is torn
        salvaged = await _delete_branches_and_worktrees(workspace)
        if not _is_archived(workspace.effects.run.state):
            await workspace.effects.run.append(RunArchived(salvaged=salvaged))
    return salvaged


def _is_archived(state: RunState) -> bool:
    return state.run is not None and state.run.archived


async def reset(home: Home, run_id: str) -> list[str]:
    """Delete the run, in the repository and in the home. Returns the refs of what was saved."""
    view = await view_run(home, run_id)
    salvaged: list[str] = []
    if _has_repository(home, view.state.run, run_id):
        async with open_workspace(home, run_id, "reset", anchored=False) as workspace:
            salvaged = await _delete_branches_and_worktrees(workspace)
            _check_nothing_is_left(workspace.effects.folder)
            await workspace.effects.perform(DropRefs(prefix=chain_ref(run_id)))
            await workspace.effects.drop_cluster_refs()
    await home.store.discard(run_id)
    return salvaged


def _check_nothing_is_left(folder: str) -> None:
    """Refuse to delete what is not a worktree but lies where worktrees were: it is not ours."""
    tasks = os.path.join(folder, "tasks")
    left = [os.path.join(tasks, name) for name in (os.listdir(tasks) if path_exists(tasks) else ())]
    left += [os.path.join(folder, name) for name in ("workspace", f".workspace{REMOVED_SUFFIX}")]
    left = [path for path in left if path_exists(path) and not _is_marker_file(os.path.basename(path))]
    if left:
        raise Denied(f"{', '.join(left)} would be deleted with the run; move it elsewhere, then reset again")


def _is_marker_file(name: str) -> bool:
    return name.startswith(".") and not name.endswith((REMOVED_SUFFIX, UNSAVED_SUFFIX))


def _has_repository(home: Home, info: RunInfo | None, run_id: str) -> bool:
    """Return True if the run may have something in a repository.

    Raises `Denied` if its work could not be saved there.
    """
    if info is None or info.repo is None:
        return False
    if info.remote is not None or os.path.isdir(info.repo):
        return True
    folder = home.folder(run_id)
    worktrees = (os.path.join(folder, "workspace"), os.path.join(folder, "tasks"))
    left = [path for path in worktrees if os.path.isdir(path)]
    if left:
        raise Denied(
            f"the repository of run {run_id} is not at {info.repo} any more, so what stands in {' and '.join(left)} "
            "cannot be saved; if it was moved: holdfast doctor --repo NEW-PLACE --fix; if it is gone, move away "
            "what you need from there, delete the rest, and reset again"
        )
    return False


async def delete_worktrees(workspace: Workspace) -> None:
    """Delete the run's worktrees, and keep its branches. What is only in a worktree is saved first."""
    effects, run_id = workspace.effects, workspace.run_id
    observed = await observe(workspace.repository, run_id, effects.folder)
    known = effects.run.state.branches
    for folder in observed.worktrees:
        branch = known.get(worktree_names_at(run_id, folder).branch)
        last, base = (branch.unsaved, branch.base) if branch is not None else (None, None)
        await effects.perform(RemoveWorktree(folder=folder, last=last, base=base))


async def _delete_branches_and_worktrees(workspace: Workspace) -> list[str]:
    effects, run_id = workspace.effects, workspace.run_id
    main = worktree_names(run_id).branch
    observed = await observe(workspace.repository, run_id, effects.folder)
    await delete_worktrees(workspace)
    # includes worktrees that no longer exist
    unsaved = (branch.unsaved for branch in effects.run.state.branches.values())
    keep = tuple(commit for commit in unsaved if commit is not None)
    await effects.perform(DropRefs(prefix=f"{SNAPSHOT_REFS}{run_id}/", keep=keep))
    # the run's own branch last
    for name, seen in sorted(observed.branches.items(), key=lambda branch: branch[0] == main):
        into = main if name != main and main in observed.branches else None
        effect = DeleteBranch(branch=name, commit=seen.commit, merged_into=into)
        await effects.perform(effect)
    return sorted(await workspace.repository.refs(f"{SALVAGE_REFS}{run_id}/"))
