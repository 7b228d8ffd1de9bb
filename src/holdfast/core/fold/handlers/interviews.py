"""Handlers of interviews: the proposed plan, and the run that is prepared from it."""

from holdfast.core.events.plan import PlanAccepted, PlanProposed, RunPrepared
from holdfast.core.fold.handlers.base import on
from holdfast.core.interview import Interview
from holdfast.core.log.codec import Line
from holdfast.core.state import RunState


@on(PlanProposed)
def _plan_proposed(state: RunState, _: Line, event: PlanProposed) -> None:
    by = event.by
    state.interview = Interview(event.revision, event.overview, event.tasks, event.seeds, by=by, unheard=by is not None)


@on(PlanAccepted)
def _plan_accepted(state: RunState, _: Line, event: PlanAccepted) -> None:
    interview = state.interview = state.interview or Interview(event.revision)
    interview.run_id, interview.snapshot, interview.prepared = event.run_id, event.snapshot, False


@on(RunPrepared)
def _run_prepared(state: RunState, _: Line, event: RunPrepared) -> None:
    if state.interview is not None:
        state.interview.prepared = event.problem is None
        if event.problem is not None:
            state.interview.run_id = state.interview.snapshot = None
