"""A workflow as data: its phases, how a plan is laid out, what each task must pass, and within which bounds."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.work.plan import graph
from holdfast.core.work.tasks import TaskList, TaskSpec, input_keys

PLAN, DOCUMENT, DONE = "submit_plan", "submit_document", "submit_done"  # exit signals of agent phases


class Shape(StrEnum):
    """How the tasks of a plan follow each other."""

    SEQUENCE = "sequence"  # one after the other, each on what those before it did
    GRAPH = "graph"  # as their dependencies allow, wave by wave


class Kind(StrEnum):
    """What is done in a phase."""

    AGENT = "agent"  # one conversation, which ends with its exit signal
    TASKS = "tasks"  # the plan's tasks, as the workflow has them done
    REVIEW = "review"  # several roles at once, each with its own word
    COMPLETE = "complete"  # a summary of all, and the work given to others


class Publish(StrEnum):
    """Where the work goes when it is complete."""

    NOTHING = "nothing"
    PUSH = "push"
    PR = "pr"


Name = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,39}$", description="small letters, digits and _")]
RoleName = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9_]*(:[a-z0-9_-]+)?$",
        description="who does it; `architect:security` is an architect by another name",
    ),
]


class PhaseSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One phase of a workflow."""

    name: Name
    kind: Annotated[Kind, Meta(description="an agent, the plan's tasks, a review, or the completion of all")] = (
        Kind.AGENT
    )
    about: Annotated[str, Meta(description="in a line, for people")] = ""
    role: Annotated[RoleName | None, Meta(description="of an agent phase")] = None
    roles: Annotated[tuple[RoleName, ...], Meta(description="of a review: at work at the same time")] = ()
    agent: Annotated[str | None, Meta(description="who plays the role, unless the config says it")] = None
    prompt: Annotated[str | None, Meta(description="the template, else the one of the role")] = None
    inputs: Annotated[tuple[Name, ...], Meta(description="phases whose documents its agents are told")] = ()
    exit: Annotated[
        str | None, Meta(description="the tool that ends it: submit_document, submit_plan, submit_done")
    ] = None
    sections: Annotated[tuple[str, ...], Meta(description="headings that its document must have")] = ()
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="its document is data, YAML or JSON, of this JSON schema; or a file with one beside this"),
    ] = None
    when: Annotated[str | None, Meta(description="else it is passed over: `plan.needs_design`, `not plan`, …")] = None
    optional: Annotated[bool, Meta(description="passed over, unless it is asked for by --with")] = False
    approval: Annotated[bool, Meta(description="a person must agree before it is over")] = False
    validate: Annotated[bool, Meta(description="the project's checks must pass; before a review, else at the end")] = (
        False
    )
    validators: Annotated[tuple[str, ...], Meta(description="only these of the project's checks, by their names")] = ()
    on_fail: Annotated[Name | None, Meta(description="where it leads when its review or its checks fail")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="how many rounds of it may fail in a row")] = 3
    on_limit: Annotated[Name | None, Meta(description="what comes then, else a person is asked")] = None
    detour: Annotated[bool, Meta(description="entered only by `on_fail`, and leads back to whoever sent there")] = False
    findings: Annotated[bool, Meta(description="of a tasks phase: a task is made of the review's findings")] = False
    next: Annotated[Name | None, Meta(description="what comes after it, else the next that is no detour")] = None
    publish: Annotated[Publish, Meta(description="of a complete phase: where the work goes")] = Publish.NOTHING

    @property
    def checked(self) -> bool:
        """The project's checks stand in its way."""
        return self.validate or bool(self.validators)

    @property
    def everyone(self) -> tuple[str, ...]:
        """The roles that are played in it."""
        return (self.role,) if self.role is not None else self.roles


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without phases, it is the tasks alone.

    `case`: the worker must argue that its task is done. `evaluate`: another agent must agree.
    """

    name: str
    about: str
    shape: Annotated[Shape, Meta(description="how tasks follow each other")] = Shape.SEQUENCE
    case: Annotated[bool, Meta(description="a worker must argue that its task is done")] = False
    validate: Annotated[bool, Meta(description="the project's checks must pass")] = True
    evaluate: Annotated[bool, Meta(description="another agent must agree that a task is done")] = False
    phases: Annotated[tuple[PhaseSpec, ...], Meta(description="in the order in which they follow each other")] = ()

    def phase(self, name: str | None) -> PhaseSpec | None:
        return next((one for one in self.phases if one.name == name), None)

    def place(self, name: str) -> int:
        return next(index for index, one in enumerate(self.phases) if one.name == name)

    @property
    def planner(self) -> PhaseSpec | None:
        """The phase that makes the plan: what people want changed goes there."""
        return next((one for one in self.phases if one.exit == PLAN), None)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent. None is no bound; those of a task are counted anew when it is opened again."""

    iterations: int = 8
    evaluator_calls: int = 4
    conflict_attempts: int = 2
    agent_deaths: int = 5  # in a row, within one sitting
    ask_when_cut_off: bool = False  # a person says how to go on with a turn that was
    approving: bool = False  # what asks for approval has it
    parallel: int = 2
    reviewers: int | None = None  # at once; None is all of a review
    wall_clock: float | None = None
    tokens: int | None = None
    dollars: float | None = None


def lay_out(tasks: TaskList, shape: Shape, source: str | None = None, *, needs_design: bool = False) -> PlanCreated:
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
        needs_design=needs_design,
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
