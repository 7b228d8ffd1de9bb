"""What a run has changed so far, committed or not."""

import os
from typing import NamedTuple

import msgspec

from holdfast.core.state import RunState
from holdfast.core.work.names import worktree_names
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.repository import is_elsewhere, open_repository
from holdfast.git.repository import Repository
from holdfast.git.snapshot import capture, diff
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree
from holdfast.leaf.errors import BadInput, NothingToDo


class ChangedFile(msgspec.Struct, frozen=True):
    """A file's added and deleted lines; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


class Comparison(NamedTuple):
    old: str
    new: str
    files: tuple[ChangedFile, ...]
    patch: bytes


class Ends(NamedTuple):
    """The two commits of a comparison. `is_worktree`: the newer one has what is not committed, too."""

    old: str
    new: str
    is_worktree: bool


async def compare_run(
    home: Home, run_id: str, task_id: str | None = None, *, since: str | None = None, until: str | None = None
) -> Comparison:
    """Return what a run, or one task, changed since it began. Reads only, and needs no ownership.

    `since` and `until` are commits, branches, or names of snapshots.
    """
    view = await view_run(home, run_id)
    repository = await confined_repository(home, view)
    ends = await find_ends(home, repository, view, task_id, since=since, until=until)
    return await compare_commits(repository, ends.old, ends.new)


async def confined_repository(home: Home, view: RunView) -> Repository:
    """Return the run's repository. Its git runs nothing that an agent could have written."""
    repository = await open_repository(home, view.state.run, view.run_id)
    confine(repository, view.run_id, view.folder, lambda: view.state, run_config_for(home, view.state))
    return repository


async def find_ends(
    home: Home,
    repository: Repository,
    view: RunView,
    task_id: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
) -> Ends:
    run_id = view.run_id
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
    is_worktree = False
    if until:
        new: str | None = await _resolve_commit(repository, place.snapshot_refs, until)
    else:
        new, is_worktree = await _newest_commit(home, view.state, worktree)
    if new is None and known.target is not None:
        raise NothingToDo(f"task {task_id} was merged and its branch is gone; `holdfast diff {run_id}` has its work")
    if old is None or new is None:
        raise NothingToDo(f"{place.branch} is gone, and so is its worktree; `holdfast salvage ls` shows what was saved")
    return Ends(old, new, is_worktree)


async def compare_commits(repository: Repository, old: str, new: str) -> Comparison:
    fields = (await diff(repository, old, new, "--numstat", "--no-renames", "-z")).split(b"\0")
    files = [_parse_changed_file(*field.split(b"\t", 2)) for field in fields if field]
    return Comparison(old, new, tuple(files), await diff(repository, old, new, "--binary"))


def _parse_changed_file(added: bytes, removed: bytes, path: bytes) -> ChangedFile:
    return ChangedFile(os.fsdecode(path), *(int(count) if count != b"-" else None for count in (added, removed)))


async def _newest_commit(home: Home, state: RunState, worktree: Worktree) -> tuple[str | None, bool]:
    """Return the files as they are now; in a run that another machine has, its branch as that machine pushed it."""
    if state.run is not None and is_elsewhere(home, state.run, state.run.run_id):
        return await worktree.repository.commit_of(f"refs/heads/{worktree.branch}"), False
    return await _current_commit(worktree)


async def _current_commit(worktree: Worktree) -> tuple[str | None, bool]:
    """Return a snapshot of the worktree; without a worktree, its branch."""
    try:
        return (await capture(worktree, "As it is now")).oid, True
    except NotOurWorktree:
        return await worktree.repository.commit_of(f"refs/heads/{worktree.branch}"), False


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
