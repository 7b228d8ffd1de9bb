"""A worktree that somebody deleted, made again with what its worker had done by the end of its last turn."""

import re
from typing import NamedTuple

from holdfast.core.deciding import WORKTREE_LOST, was_cut_off
from holdfast.core.events.work import IterationEnded
from holdfast.core.state import Stage, Task, TaskStatus
from holdfast.engine.workspace import Workspace
from holdfast.git.snapshot import taken_at

_COMMITTED = (Stage.MERGE, Stage.COMPLETE)


class _Kept(NamedTuple):
    """The files as they were after a turn."""

    turn: int = 0
    commit: str | None = None


async def made_again(workspace: Workspace, task: str | None) -> bool:
    """False when what the worker reported is not there any more: then its iteration came to nothing.

    The log says so before there is a folder that could be taken for what the worker left.
    """
    run = workspace.hands.run
    found = run.state.tasks.get(task) if task is not None else None
    if task is None or found is None or found.status is not TaskStatus.IN_PROGRESS or found.stage in _COMMITTED:
        await workspace.open(task)
        return True
    kept = await _kept(workspace, task)
    lost = _is_lost(workspace, found, kept)
    if lost:
        await run.append(IterationEnded(task_id=task, iteration=found.iteration, reason=WORKTREE_LOST))
    await workspace.open(task, files=kept.commit)
    return not lost


def _is_lost(workspace: Workspace, task: Task, kept: _Kept) -> bool:
    """Not when nothing was done in this iteration; nor when it was cut off: who goes on looks first."""
    worker = workspace.hands.run.state.conversations.get(task.worker or "")
    return worker is not None and worker.turns not in (kept.turn, task.since) and not was_cut_off(worker)


async def _kept(workspace: Workspace, task: str) -> _Kept:
    """Of the last turn. Nothing where the branch has moved since: that was committed, or wanted otherwise."""
    repository, place = workspace.repository, workspace.place(task)
    refs = await repository.refs(f"{place.snapshots}/turn-*")
    newest = max((_Kept(int(re.findall(r"\d+", name)[-1]), oid) for name, oid in refs.items()), default=_Kept())
    tip = await repository.commit_of(f"refs/heads/{place.branch}")
    begins = tip or workspace.hands.run.state.branches[place.branch].base
    return newest if newest.commit is not None and await taken_at(repository, newest.commit) == begins else _Kept()
