"""Turn the findings of a review into one more task of the plan, processed like any other."""

from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.state import RunState
from holdfast.core.task_state import Plan, Task
from holdfast.core.text.fingerprint import fingerprint


def plan_with_fix_task(state: RunState, title: str, description: str, criteria: list[str]) -> PlanCreated:
    """The current plan, followed by a task that fixes the findings.

    From now on the plan has no source file: the task list that it was read from does not contain the new task.
    """
    plan = state.plan or Plan()
    name = _new_task_id(state)
    content = "\n".join((title, description, *criteria, name))
    fix = PlannedTask(
        id=name,
        summary=title,
        description=description,
        acceptance_criteria=criteria,
        key=fingerprint(content.encode(errors="replace")),
    )
    known = [(task, state.tasks.get(task) or Task()) for task in plan.order]
    needed = [(task, other) for task, others in plan.blocked_by.items() for other in others]
    return PlanCreated(
        tasks=[*(_planned_task(task, found) for task, found in known), fix],
        waves=[
            *(PlannedWave(wave=number, task_ids=list(wave.task_ids)) for number, wave in sorted(plan.waves.items())),
            PlannedWave(wave=max(plan.waves, default=0) + 1, task_ids=[name]),
        ],
        dependencies=[
            *(Dependency(task_id=task, blocked_by=other) for task, other in needed),
            *(Dependency(task_id=name, blocked_by=task) for task in plan.order),
        ],
        overview=plan.overview,
        needs_design=plan.needs_design,
    )


def _new_task_id(state: RunState) -> str:
    number = 1
    while f"fix-{number}" in state.tasks:
        number += 1
    return f"fix-{number}"


def _planned_task(task_id: str, task: Task) -> PlannedTask:
    return PlannedTask(
        id=task_id,
        summary=task.summary,
        agent=task.wants,
        description=task.description,
        acceptance_criteria=task.acceptance_criteria,
        files=task.files or [],
        key=task.key,
    )
