"""A branch that is gone, where it was; a worktree that was deleted, with what its worker had done by its last turn."""

import re
from typing import NamedTuple

from holdfast.core.decide.tasks import was_interrupted, was_refused
from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.work import WORKTREE_LOST, IterationEnded, TaskCommitted
from holdfast.core.messages.reports import has_pending_case
from holdfast.core.state import BEGUN_STATUSES, Task, TaskStage
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import RestoreBranch
from holdfast.git.snapshot import snapshot_head
from holdfast.leaf.errors import Denied


async def restore_branch(workspace: Workspace, task: str | None) -> None:
    """At its last commit where its worktree remembers it, or the log; else it begins anew, where it began."""
    repository, worktree, state = workspace.repository, workspace.worktree(task), workspace.effects.run.state
    branch, found = state.branches[worktree.branch], state.tasks.get(task or "")
    base = branch.base or await repository.commit_of(f"refs/heads/{workspace.place().branch}")
    if base is None:
        raise Denied(f"{worktree.branch} is gone, and the log does not tell where it began; restore it with git branch")
    known = [worktree.last_head(), branch.tip, found.commit if found is not None else None]
    had = list(dict.fromkeys(commit for commit in known if commit is not None and branch.base is not None))
    there = [commit for commit in had if await repository.commit_of(commit) is not None]
    commit = there[0] if there else base
    if had and had[0] != commit:
        told = f"{worktree.branch} was at {had[0][:12]}, which git has no more; it is made again at {commit[:12]}"
        await workspace.effects.run.append(WarningLogged(message=told))
    lost = "its last commit; nothing of it is lost"
    if not had:
        lost = "where the work on it began: any commits that were made on it are lost"
    elif had[0] != commit:
        lost = f"the newest commit that git still has; commits up to {had[0][:12]} are lost"
    message = f"The branch {worktree.branch} was deleted outside Holdfast. It is recreated at {commit[:12]}, {lost}."
    await workspace.effects.run.append(
        WorkspaceReconciled(subject=worktree.branch, action=Remedy.RECREATE_BRANCH, message=message, task=task)
    )
    await workspace.effects.perform(RestoreBranch(task=task, base=base, commit=commit), task=task)


class _TurnSnapshot(NamedTuple):
    """The files as they were after a turn."""

    turn: int = 0
    commit: str | None = None


async def restore_worktree(workspace: Workspace, task: str | None) -> bool:
    """False when the task is not where it was: what its worker reported, or was to resolve, is not there any more.

    The log says so before there is a folder that could be taken for what the worker left.
    """
    run, repository = workspace.effects.run, workspace.repository
    if await repository.commit_of(f"refs/heads/{workspace.place(task).branch}") is None:
        await restore_branch(workspace, task)
    found = run.state.tasks.get(task) if task is not None else None
    if task is None or found is None or found.status not in BEGUN_STATUSES or found.stage is TaskStage.COMPLETE:
        await _record_recreation(workspace, task, "its branch")
        await workspace.open_worktree(task)
        return True
    committed = found.commit is not None and await repository.commit_of(found.commit) is not None
    if committed and (found.stage is TaskStage.MERGE or found.conflicts):
        if found.conflicts:  # git's notes of the merge went with the folder: it is to be merged anew
            await run.append(TaskCommitted(task_id=task, commit=found.commit))
        await _record_recreation(workspace, task, "its branch; what was committed is there")
        await workspace.open_worktree(task)
        return not found.conflicts
    if found.recheck is not None and found.unchecked is not None:
        await workspace.open_worktree(task)  # all of it is committed, and to be checked once more
        return True
    await run.consume_inbox()
    kept = await _last_turn_snapshot(workspace, task)
    lost = found.stage is TaskStage.MERGE or _is_lost(workspace, found, kept)
    if lost:
        await run.append(IterationEnded(task_id=task, iteration=found.iteration, reason=WORKTREE_LOST))
    source = "its branch; changes that were not committed are lost"
    if kept.commit is not None:
        source = f"the files as they were after turn {kept.turn} of your conversation; later changes are lost"
    await _record_recreation(workspace, task, source)
    await workspace.open_worktree(task, files=kept.commit)
    return not lost


async def _record_recreation(workspace: Workspace, task: str | None, source: str) -> None:
    """Before it is done: once there is a folder again, nobody could tell that it was gone."""
    place = workspace.place(task)
    message = f"The worktree {place.folder} was deleted outside Holdfast. It is recreated from {source}."
    await workspace.effects.run.append(
        WorkspaceReconciled(subject=place.folder, action=Remedy.RECREATE_WORKTREE, message=message, task=task)
    )


def _is_lost(workspace: Workspace, task: Task, snapshot: _TurnSnapshot) -> bool:
    """Not when nothing was done in this iteration; nor when it was cut off: who goes on looks first.

    An agent that answered with an error was not: it has to be told what became of its files.
    """
    state = workspace.effects.run.state
    worker = state.conversations.get(task.worker or "")
    if worker is None or worker.turns in (snapshot.turn, task.since):
        return False
    cut_off = was_interrupted(worker) and not was_refused(worker)
    goes_on = task.stage is TaskStage.WORK and cut_off and not has_pending_case(state, task.worker)
    return not goes_on


async def _last_turn_snapshot(workspace: Workspace, task: str) -> _TurnSnapshot:
    """Of the last turn. Nothing where the branch has moved since: that was committed, or wanted otherwise."""
    repository, place = workspace.repository, workspace.place(task)
    refs = await repository.refs(f"{place.snapshot_refs}/turn-*")
    newest = max(
        (_TurnSnapshot(int(re.findall(r"\d+", name)[-1]), oid) for name, oid in refs.items()), default=_TurnSnapshot()
    )
    tip = await repository.commit_of(f"refs/heads/{place.branch}")
    return (
        newest
        if newest.commit is not None and await snapshot_head(repository, newest.commit) == tip
        else _TurnSnapshot()
    )
