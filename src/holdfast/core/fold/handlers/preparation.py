"""Handlers of what is done before the agents work: the setup of worktrees, and the baseline of the checks."""

from holdfast.core.events.preparation import (
    BaselineCheckFinished,
    BaselineFinished,
    BaselineStarted,
    WorktreePrepared,
)
from holdfast.core.fold.handlers.base import on, optional_id
from holdfast.core.log.codec import Line
from holdfast.core.state import Baseline, BaselineCheck, RunState
from holdfast.core.work.names import worktree_names


@on(WorktreePrepared)
def _worktree_prepared(state: RunState, _: Line, event: WorktreePrepared) -> None:
    """Until the worktree is made again: `_note_last_seen` in `handlers.effects` forgets it then."""
    if state.run is None:
        return
    branch = state.branches.get(worktree_names(state.run.run_id, optional_id(event.task)).branch)
    if branch is not None:
        branch.prepared = event.key


@on(BaselineStarted)
def _baseline_started(state: RunState, _: Line, event: BaselineStarted) -> None:
    """Results of an interrupted baseline count, if it was on the same files in the same runtime."""
    known = state.baseline
    if known is None or (known.tree, known.runtime) != (event.tree, event.runtime):
        state.baseline = Baseline(event.tree, event.runtime)


@on(BaselineCheckFinished)
def _baseline_check_finished(state: RunState, _: Line, event: BaselineCheckFinished) -> None:
    if state.baseline is not None:
        state.baseline.checks[event.key] = BaselineCheck(event.name, event.passed)


@on(BaselineFinished)
def _baseline_finished(state: RunState, _: Line, event: BaselineFinished) -> None:
    if state.baseline is not None:
        state.baseline.finished = True
        for check in state.baseline.checks.values():
            check.excused = check.name in event.excused
