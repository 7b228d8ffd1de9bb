"""A workflow as data: how a plan is laid out, what each task must pass, and within which bounds."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.plan import graph
from holdfast.core.tasks import TaskList, TaskSpec, input_keys


class Shape(StrEnum):
    """How the tasks of a plan follow each other."""

    SEQUENCE = "sequence"  # one after the other, each on what those before it did
    GRAPH = "graph"  # as their dependencies allow, wave by wave


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`case`: the worker must argue that its task is done. `evaluate`: another agent must agree."""

    name: str
    about: str
    shape: Shape = Shape.SEQUENCE
    case: bool = False
    validate: bool = True
    evaluate: bool = False


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent. None is no bound; those of a task are counted anew when it is opened again."""

    iterations: int = 8
    evaluator_calls: int = 4
    conflict_attempts: int = 2
    agent_deaths: int = 5  # in a row, within one sitting
    ask_when_cut_off: bool = False  # a person says how to go on with a turn that was
    parallel: int = 2
    wall_clock: float | None = None
    tokens: int | None = None
    dollars: float | None = None


def lay_out(tasks: TaskList, shape: Shape, source: str | None = None) -> PlanCreated:
    """The plan of a task list; raises `PlanRejected` when its dependencies make no order.

    In a sequence each task waits for the one before it, but what it builds on is only what it names itself.
    """
    keys = input_keys(tasks.tasks)
    specs = _in_sequence(tasks.tasks) if shape is Shape.SEQUENCE else tasks.tasks
    checked = graph([task.id for task in specs], {task.id: task.depends_on for task in specs})
    return PlanCreated(
        tasks=[
            PlannedTask(
                id=task.id,
                summary=task.title,
                agent=task.agent,
                description=task.description,
                acceptance_criteria=list(task.acceptance_criteria),
                files=list(task.files),
                key=keys[task.id],
            )
            for task in specs
        ],
        waves=[PlannedWave(wave=number, task_ids=list(wave)) for number, wave in enumerate(checked.waves, start=1)],
        dependencies=[Dependency(task_id=task.id, blocked_by=needed) for task in specs for needed in task.depends_on],
        overview=tasks.overview,
        source=source,
    )


def _in_sequence(tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Each waits for the one before it, in the order that their own dependencies allow."""
    checked = graph([task.id for task in tasks], {task.id: task.depends_on for task in tasks})
    specs = {task.id: task for task in tasks}
    order = [name for wave in checked.waves for name in wave]
    place = {task.id: index for index, task in enumerate(tasks)}
    if all(place[needed] < place[task.id] for task in tasks for needed in task.depends_on):
        order = list(checked.tasks)  # the list's own order serves
    before = [None, *order]
    return [
        msgspec.structs.replace(specs[name], depends_on=(previous,) if previous is not None else ())
        for previous, name in zip(before, order, strict=False)
    ]
