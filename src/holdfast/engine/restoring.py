"""A worktree that somebody deleted, made again with what its worker had done by the end of its last turn."""

import re

from holdfast.core.deciding import WORKTREE_LOST, was_cut_off
from holdfast.core.events.work import IterationEnded
from holdfast.core.state import Stage, TaskStatus
from holdfast.engine.workspace import Workspace
from holdfast.git.snapshot import taken_at

_COMMITTED = (Stage.MERGE, Stage.COMPLETE)


async def made_again(workspace: Workspace, task: str | None) -> bool:
    """False when what the worker reported is not there any more: then its iteration came to nothing, and is told so."""
    await workspace.open(task)
    run = workspace.hands.run
    found = run.state.tasks.get(task) if task is not None else None
    if task is None or found is None or found.status is not TaskStatus.IN_PROGRESS or found.stage in _COMMITTED:
        return True
    worker = run.state.conversations.get(found.worker or "")
    restored = await _restored(workspace, task)
    if worker is None or worker.turns in (restored, found.since) or was_cut_off(worker):
        return True
    await run.append(IterationEnded(task_id=task, iteration=found.iteration, reason=WORKTREE_LOST))
    return False


async def _restored(workspace: Workspace, task: str) -> int:
    """The turn after which its files were as they are now again; 0 when there is no such snapshot.

    Not where the branch has moved since: then that was committed, or somebody wanted it otherwise.
    """
    prefix = f"{workspace.place(task).snapshots}/turn-"
    taken = {_number(name): oid for name, oid in (await workspace.repository.refs(f"{prefix}*")).items()}
    newest = max(taken, default=0)
    if not newest or await taken_at(workspace.repository, taken[newest]) != await workspace.tip(task):
        return 0
    await workspace.restore(task, taken[newest])
    return newest


def _number(name: str) -> int:
    return int(re.findall(r"\d+", name)[-1])
