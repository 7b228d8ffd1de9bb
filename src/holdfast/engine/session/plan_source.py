"""Rereads the plan of a run from its source, to find edits made since."""

import os

from msgspec import structs

from holdfast.core.events.plan import PlanCreated
from holdfast.core.redaction.redaction import Redactor
from holdfast.core.state import RunState
from holdfast.core.task_state import Plan
from holdfast.core.work.workflow import build_plan
from holdfast.engine.config.of_run import workflow_of


def reread_plan(state: RunState) -> PlanCreated | None:
    """Return the plan if its source has changed. A source that no longer exists changes nothing."""
    if state.plan is None or state.plan.source is None or not os.path.exists(state.plan.source):
        return None
    from holdfast.workflows.tasklists import read_tasks  # noqa: PLC0415 - slow to import; a goal is no file

    plan = build_plan(read_tasks(state.plan.source), workflow_of(state).shape, state.plan.source)
    recorded = structs.replace(plan, overview=Redactor.from_environment(os.environ).redact_text(plan.overview))
    return plan if _plan_contents(recorded) != _recorded_contents(state, state.plan) else None


def _plan_contents(plan: PlanCreated) -> tuple[object, ...]:
    needed = sorted((str(dependency.task_id), str(dependency.blocked_by)) for dependency in plan.dependencies)
    return [(str(task.id), task.key) for task in plan.tasks], needed, plan.overview


def _recorded_contents(state: RunState, plan: Plan) -> tuple[object, ...]:
    keys = [(name, state.tasks[name].key if name in state.tasks else None) for name in plan.order]
    needed = sorted((name, other) for name, others in plan.blocked_by.items() for other in others)
    return keys, needed, plan.overview
