"""Restores a deleted branch where it was, and a deleted worktree with its worker's files as of its last turn."""

from typing import NamedTuple

from holdfast.core.decide.tasks import was_interrupted, was_refused
from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.work import WORKTREE_LOST, IterationEnded, TaskCommitted
from holdfast.core.messages.reports import has_pending_case
from holdfast.core.task_state import BEGUN_STATUSES, Task, TaskStage
from holdfast.core.work.reconciliation import Remedy
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import RestoreBranch
from holdfast.git.snapshot import snapshot_head
from holdfast.leaf.errors import Denied


async def restore_branch(workspace: Workspace, task: str | None) -> None:
    """Restore a branch at its last commit, from its worktree or the log; else at the commit where it started."""
    repository, worktree, state = workspace.repository, workspace.worktree(task), workspace.effects.run.state
    branch, found = state.branches[worktree.branch], state.tasks.get(task or "")
    base = branch.base or await repository.commit_of(f"refs/heads/{workspace.place().branch}")
    if base is None:
        raise Denied(
            f"{worktree.branch} is missing, and the log does not say where it started; restore it with git branch"
        )
    known = [worktree.last_head(), branch.tip, found.commit if found is not None else None]
    earlier_tips = list(dict.fromkeys(commit for commit in known if commit is not None and branch.base is not None))
    there = [commit for commit in earlier_tips if await repository.commit_of(commit) is not None]
    commit = there[0] if there else base
    if earlier_tips and earlier_tips[0] != commit:
        remark = f"{worktree.branch} was at {earlier_tips[0][:12]}, which git no longer has; recreated at {commit[:12]}"
        await workspace.effects.run.append(WarningLogged(message=remark))
    lost_text = "its last commit; nothing is lost"
    if not earlier_tips:
        lost_text = "its starting point: any commits made on it are lost"
    elif earlier_tips[0] != commit:
        lost_text = f"the newest commit that git still has; commits up to {earlier_tips[0][:12]} are lost"
    message = (
        f"The branch {worktree.branch} was deleted outside Holdfast. It is recreated at {commit[:12]}, {lost_text}."
    )
    await workspace.effects.run.append(
        WorkspaceReconciled(subject=worktree.branch, action=Remedy.RECREATE_BRANCH, message=message, task=task)
    )
    await workspace.effects.perform(RestoreBranch(task=task, base=base, commit=commit), task=task)


class _TurnSnapshot(NamedTuple):
    """The files after a turn; or during the one after it, if a timed snapshot has them."""

    turn: int = 0
    commit: str | None = None
    is_during: bool = False

    @property
    def description(self) -> str:
        when = f"during turn {self.turn + 1}" if self.is_during else f"after turn {self.turn}"
        return f"the files as they were {when} of your conversation; later changes are lost"


async def restore_worktree(workspace: Workspace, task: str | None) -> bool:
    """Restore a worktree. Returns False if it is not in the state that its worker reported or was asked to resolve.

    The log records that before a folder exists that could be taken for the worker's.
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
        if found.conflicts:  # git's merge state was in the folder: the merge starts again
            await run.append(TaskCommitted(task_id=task, commit=found.commit))
        await _record_recreation(workspace, task, "its branch; what was committed is there")
        await workspace.open_worktree(task)
        return not found.conflicts
    if found.recheck is not None and found.unchecked is not None:
        await workspace.open_worktree(task)  # everything is committed, and is checked again
        return True
    await run.consume_inbox()
    snapshot = await _last_turn_snapshot(workspace, task)
    is_lost = found.stage is TaskStage.MERGE or _is_lost(workspace, found, snapshot)
    if is_lost:
        await run.append(IterationEnded(task_id=task, iteration=found.iteration, reason=WORKTREE_LOST))
    source = "its branch; changes that were not committed are lost"
    if snapshot.commit is not None:
        worker = run.state.conversations.get(found.worker or "")
        is_rewound = worker is not None and worker.rewound is not None
        source = "the files as a rewind left them; later changes are lost" if is_rewound else snapshot.description
    await _record_recreation(workspace, task, source)
    await workspace.open_worktree(task, files=snapshot.commit)
    return not is_lost


async def _record_recreation(workspace: Workspace, task: str | None, source: str) -> None:
    """Record it first: once the folder exists again, the loss cannot be detected any more."""
    place = workspace.place(task)
    cause = f"The worktree {place.folder} was deleted outside Holdfast. It is recreated"
    if workspace.effects.run.state.has_moved:
        cause = f"The run moved to another machine. The worktree {place.folder} is created there"
    message = f"{cause} from {source}."
    await workspace.effects.run.append(
        WorkspaceReconciled(subject=place.folder, action=Remedy.RECREATE_WORKTREE, message=message, task=task)
    )


def _is_lost(workspace: Workspace, task: Task, snapshot: _TurnSnapshot) -> bool:
    """Return whether work was lost. False if nothing was done in this iteration, or the turn was interrupted.

    After an interruption the agent looks first. An agent that answered with an error was not interrupted: it must be
    informed about its files.
    """
    state = workspace.effects.run.state
    worker = state.conversations.get(task.worker or "")
    if worker is None or worker.turns in (snapshot.turn, task.since):
        return False
    is_interrupted = was_interrupted(worker) and not was_refused(worker)
    continues = task.stage is TaskStage.WORK and is_interrupted and not has_pending_case(state, task.worker)
    return not continues


async def _last_turn_snapshot(workspace: Workspace, task: str) -> _TurnSnapshot:
    """Return the snapshot of the last turn.

    Empty if the branch has moved since, because that work was committed or dropped.
    """
    repository, place = workspace.repository, workspace.place(task)
    known = workspace.effects.run.state.branches.get(place.branch)
    if known is None:
        return _TurnSnapshot()
    tip = await repository.commit_of(f"refs/heads/{place.branch}")
    for commit in (known.during, known.turn_files):
        if commit is None or await repository.commit_of(commit) is None:
            continue
        if await snapshot_head(repository, commit) == tip:
            return _TurnSnapshot(known.turn, commit, commit == known.during)
    return _TurnSnapshot()
