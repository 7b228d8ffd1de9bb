"""Rewinds a run: conversation, worktrees and plan go back to a point together, and nothing is destroyed.

The log stays append-only: the rewind is an event, durable before anything moves. What worktrees and branches were is
kept as snapshots and salvage, so a rewind can be undone. Commits that were pushed stay where they were pushed.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.events.rewind import RewindAxis, RunRewound
from holdfast.core.state import BranchStatus, Rewind, RunState
from holdfast.core.task_state import Task
from holdfast.core.work.names import short_point_name, worktree_names
from holdfast.engine.commands.stop import stop_run
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.diff import ChangedFile, compare_commits
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.engine.queries.points import Abandoned, PointSearch, was_rewound_since
from holdfast.engine.session.artifacts import delete_abandoned
from holdfast.engine.session.projections import write_projections
from holdfast.engine.workspace.confinement import confine
from holdfast.engine.workspace.repository import open_repository
from holdfast.engine.workspace.rewind import branch_targets, finish_rewind
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.git.repository import Repository
from holdfast.git.snapshot import capture
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree
from holdfast.leaf.errors import BadInput, Denied, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.store.base import Log, Position
from holdfast.store.fold import fold_prefix

_FAILPOINT = failpoint_pair("run.rewind")


class RewindRequest(msgspec.Struct, frozen=True):
    """Where to go back to: a point by name, or the rewind before (`undo`).

    `expect` is the end of the log that a person saw when they chose it: a run that went on since is not rewound.
    """

    to: str = "-1"
    task: str | None = None
    only: RewindAxis = RewindAxis.BOTH
    undo: bool = False
    expect: Position | None = None


class WorktreeChange(msgspec.Struct, frozen=True):
    """What a rewind changes in a worktree; `exists` is False when the rewind deletes it, with its branch."""

    task: str | None
    branch: str
    exists: bool
    files: tuple[ChangedFile, ...]


class RewindPlan(msgspec.Struct, frozen=True):
    """What a rewind would do. With `running`, the run is at work and is stopped first."""

    run_id: str
    position: Position
    point: str
    only: RewindAxis
    abandoned: Abandoned
    worktrees: tuple[WorktreeChange, ...] = ()
    undoes: int | None = None
    task: str | None = None
    running: bool = False


class RewindResult(msgspec.Struct, frozen=True):
    """What a rewind did. `salvaged` are refs of what worktrees and branches were."""

    run_id: str
    point: str
    position: Position
    salvaged: tuple[str, ...] = ()


class PreparedRewind(NamedTuple):
    """A plan, and what carrying it out needs again: the state at the point. Another rewind makes it invalid.

    `end` is where the log ended when it was planned.
    """

    plan: RewindPlan
    then: RunState
    rewinds: Sequence[Rewind]
    end: Position

    async def is_valid(self, log: Log, state: RunState, request: RewindRequest) -> bool:
        """Whether the plan is still what was asked for. The state does not count rewinds of files, which undo does."""
        return self.rewinds == state.rewinds and not (request.undo and await was_rewound_since(log, self.end))


async def plan_rewind(home: Home, run_id: str, request: RewindRequest) -> RewindPlan:
    """Return what a rewind would do. Changes nothing."""
    return (await prepare_rewind(home, run_id, request)).plan


async def prepare_rewind(home: Home, run_id: str, request: RewindRequest) -> PreparedRewind:
    """Plan a rewind and keep what `rewind_run` would have to read again. Changes nothing."""
    end = await end_of_log(home, run_id)
    view = await view_run(home, run_id)
    log, state = home.store.log(run_id), view.state
    plan = await _plan(log, run_id, view.folder, state, request)
    then = await fold_prefix(log, plan.position, state.rewinds)
    _check(plan, then, state)
    if request.only != RewindAxis.CONVERSATION:
        repository = await open_repository(home, state.run, run_id)
        confine(repository, run_id, view.folder, lambda: state, run_config_for(home, state))
        worktrees = await _worktree_changes(repository, run_id, view.folder, then, state)
        plan = msgspec.structs.replace(plan, worktrees=worktrees)
    return PreparedRewind(msgspec.structs.replace(plan, running=view.holder is not None), then, state.rewinds, end)


async def rewind_run(
    home: Home, run_id: str, request: RewindRequest, prepared: PreparedRewind | None = None
) -> RewindResult:
    """Rewind a run. A run at work is stopped first. After a crash, the next start finishes what this began.

    `prepared` saves reading the log again.
    """
    expect = request.expect
    if (await view_run(home, run_id)).holder is not None:
        await stop_run(home, run_id)
        expect = None  # it recorded its end
    async with open_workspace(home, run_id, "rewind", expect=expect) as workspace:
        await finish_rewind(workspace)
        run, log = workspace.effects.run, home.store.log(run_id)
        if run.state.effects:
            kinds = ", ".join(sorted({effect.kind for effect in run.state.effects.values()}))
            raise Denied(f"the outcome of an effect is unknown ({kinds}); resume the run first, which settles it")
        if prepared is not None and await prepared.is_valid(log, run.state, request):
            plan, then = prepared.plan, prepared.then
        else:
            plan = await _plan(log, run_id, home.folder(run_id), run.state, request)
            then = await run.state_at(plan.position)
        _check(plan, then, run.state)
        await branch_targets(workspace.repository, run_id, then)  # raises before anything changes
        await _keep_worktrees(workspace)
        event = RunRewound(
            at=run.head.position,
            position=plan.position,
            only=plan.only,
            undoes=plan.undoes,
            point=plan.point,
            task=plan.task,
        )
        # Before the event: the state after it does not name them. After a kill in between, a resume writes them again.
        delete_abandoned(home.folder(run_id), run.state, run.state if plan.only == RewindAxis.FILES else then)
        _FAILPOINT.before()
        await run.rewind(event, then)
        _FAILPOINT.after()
        salvaged = await finish_rewind(workspace, then)
        write_projections(home.folder(run_id), run.state)
        return RewindResult(run_id, plan.point, plan.position, tuple(salvaged))


async def _plan(log: Log, run_id: str, folder: str, state: RunState, request: RewindRequest) -> RewindPlan:
    _check_run(run_id, state, request)
    search = PointSearch(log, state, folder)
    if request.undo:
        last = await search.last_rewind()
        named = f"before the rewind to {short_point_name(last.point) if last.point else last.position}"
        abandoned = search.abandoned_after(last.at)
        return RewindPlan(run_id, last.at, named, RewindAxis(last.only), abandoned, undoes=last.at, task=last.task)
    point = await search.find(request.to, request.task)
    abandoned = search.abandoned_after(point.position)
    return RewindPlan(run_id, point.position, point.name, request.only, abandoned, task=request.task)


def _check_run(run_id: str, state: RunState, request: RewindRequest) -> None:
    if state.run is None or state.run.repo is None or not state.has_plan:
        raise NothingToDo(f"run {run_id} has nothing to go back to")
    if state.run.archived:
        raise NothingToDo(f"run {run_id} is archived: its worktrees and branches are gone")
    if request.task is not None and request.task not in state.tasks:
        raise BadInput(f"run {run_id} has no task {request.task!r}; it has {', '.join(state.tasks) or 'none yet'}")


def _check(plan: RewindPlan, then: RunState, now: RunState) -> None:
    """Refuse what cannot be taken back as asked."""
    for task_id, task in then.tasks.items():
        if task.conflicts:
            raise Denied(f"at {plan.point}, a merge was being resolved in {task_id}; choose a point before or after it")
    if plan.only != RewindAxis.BOTH:
        changed = _progress_since(then, now)
        if changed:
            advice = "leave out --only" if plan.undoes is None else "this rewind cannot be undone; rewind to a point"
            raise Denied(
                f"{', '.join(changed)} went on since {plan.point} (committed, merged or begun), so files and "
                f"conversation can only go back together; {advice}"
            )
    if plan.task is not None and plan.undoes is None:
        _check_task(plan.task, then, now)


def _check_task(task_id: str, then: RunState, now: RunState) -> None:
    main = worktree_names(then.run.run_id).branch if then.run is not None else ""
    before, after = (state.branches.get(main) for state in (then, now))
    if before is not None and after is not None and before.tip != after.tip:
        raise Denied(
            f"{task_id} or another task was merged since, and others build on that; rewind the whole run without --task"
        )
    others = [name for name in _changed_tasks(then, now) if name != task_id]
    if others:
        raise Denied(
            f"{', '.join(others)} worked since then too; rewind the whole run without --task, or a later point"
        )


def _changed_tasks(then: RunState, now: RunState) -> list[str]:
    def record(state: RunState, task_id: str) -> tuple[object, ...]:
        task = state.tasks.get(task_id, Task())
        turns = sum(each.turns for each in state.conversations.values() if each.task == task_id)
        return task.status, task.stage, task.iteration, task.commit, turns

    return [task_id for task_id in now.tasks if record(then, task_id) != record(now, task_id)]


def _progress_since(then: RunState, now: RunState) -> list[str]:
    """The branches that were made, committed to, merged or deleted since."""

    def record(state: RunState, name: str) -> tuple[object, ...] | None:
        branch = state.branches.get(name)
        return (branch.status, branch.base, branch.target, branch.tip, branch.committed) if branch else None

    names: Mapping[str, object] = {**then.branches, **now.branches}
    return [name for name in names if record(then, name) != record(now, name)]


async def _keep_worktrees(workspace: Workspace) -> None:
    """Snapshot every worktree as it is, so that undoing the rewind brings back exactly that."""
    state = workspace.effects.run.state
    for name, branch in list(state.branches.items()):
        if branch.status is BranchStatus.DELETED or worktree_names(workspace.run_id, branch.task).branch != name:
            continue
        if os.path.lexists(workspace.worktree(branch.task).path):
            await workspace.snapshot(branch.task, f"rewind-{workspace.effects.run.head.position}")


async def _worktree_changes(
    repository: Repository, run_id: str, folder: str, then: RunState, now: RunState
) -> tuple[WorktreeChange, ...]:
    targets = {target.branch: target for target in await branch_targets(repository, run_id, then)}
    changes: list[WorktreeChange] = []
    for name in {**targets, **now.branches}:
        target, task = targets.get(name), (then.branches.get(name) or now.branches[name]).task
        place = worktree_names(run_id, task)
        if place.branch != name or (target is None and now.branches[name].status is BranchStatus.DELETED):
            continue
        current = await _current(Worktree(repository, os.path.join(folder, place.folder), name))
        goal = target.commit if target is not None else now.branches[name].base
        if current is None or goal is None:
            continue
        files = (await compare_commits(repository, current, goal)).files if current != goal else ()
        changes.append(WorktreeChange(task, name, target is not None, files))
    return tuple(changes)


async def _current(worktree: Worktree) -> str | None:
    try:
        return (await capture(worktree, "As it is now")).oid
    except NotOurWorktree:
        return await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")
