"""What a run has changed so far, committed or not."""

import os
from typing import NamedTuple

from holdfast.core.work.names import worktree_names
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.workspace import repository_of
from holdfast.git.repository import Repository
from holdfast.git.snapshot import capture, diff
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree
from holdfast.leaf.errors import BadInput, NothingToDo


class ChangedFile(NamedTuple):
    """A file's added and deleted lines; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


class Comparison(NamedTuple):
    old: str
    new: str
    files: tuple[ChangedFile, ...]
    patch: bytes


async def compare_run(
    home: Home, run_id: str, task_id: str | None = None, *, since: str | None = None, until: str | None = None
) -> Comparison:
    """Return what a run, or one task, changed since it began. Reads only, and needs no ownership.

    `since` and `until` are commits, branches, or names of snapshots.
    """
    view = await view_run(home, run_id)
    repository = repository_of(view.state.run, run_id)
    confine(repository, run_id, view.folder, lambda: view.state, run_config_for(home, view.state))
    place = worktree_names(run_id, task_id)
    known = view.state.branches.get(place.branch)
    if known is None and task_id is None:
        raise NothingToDo(f"run {run_id} was interrupted before it had a branch; there is nothing to compare")
    if known is None:
        tasks = [branch.task for branch in view.state.branches.values() if branch.task is not None]
        there = f"its tasks with branches are {', '.join(tasks)}" if tasks else "none of its tasks has one"
        raise BadInput(f"run {run_id} has no branch for task {task_id!r}; {there}")
    worktree = Worktree(repository, os.path.join(view.folder, place.folder), place.branch)
    old = await _resolve_commit(repository, place.snapshot_refs, since) if since else known.base
    new = await _resolve_commit(repository, place.snapshot_refs, until) if until else await _current_commit(worktree)
    if new is None and known.target is not None:
        raise NothingToDo(f"task {task_id} was merged and its branch is gone; `holdfast diff {run_id}` has its work")
    if old is None or new is None:
        raise NothingToDo(f"{place.branch} is gone, and so is its worktree; `holdfast salvage ls` shows what was saved")
    return await compare_commits(repository, old, new)


async def compare_commits(repository: Repository, old: str, new: str) -> Comparison:
    fields = (await diff(repository, old, new, "--numstat", "--no-renames", "-z")).split(b"\0")
    files = [_parse_changed_file(*field.split(b"\t", 2)) for field in fields if field]
    return Comparison(old, new, tuple(files), await diff(repository, old, new, "--binary"))


def _parse_changed_file(added: bytes, removed: bytes, path: bytes) -> ChangedFile:
    return ChangedFile(os.fsdecode(path), *(int(count) if count != b"-" else None for count in (added, removed)))


async def _current_commit(worktree: Worktree) -> str | None:
    """Return a snapshot of the worktree; without a worktree, its branch."""
    try:
        return (await capture(worktree, "As it is now")).oid
    except NotOurWorktree:
        return await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")


async def _resolve_commit(repository: Repository, snapshots: str, name: str) -> str:
    for candidate in (f"{snapshots}/{name}", name):
        commit = await repository.commit_of(candidate)
        if commit is not None:
            return commit
    turns = list((await repository.refs(f"{snapshots}/{name}-*")).values()) if name.startswith("turn-") else []
    if len(turns) == 1:  # `turn-3`: its conversation and its id need not be typed
        return turns[0]
    known = ", ".join(ref.removeprefix(f"{snapshots}/") for ref in await repository.refs(snapshots))
    raise BadInput(f"there is no commit, branch or snapshot {name!r}; snapshots here: {known or 'none'}")
