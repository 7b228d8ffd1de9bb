"""A workflow as data: its phases, the shape of its plan, the requirements of each task, and limits."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.core.events.plan import Dependency, PlanCreated, PlannedTask, PlannedWave
from holdfast.core.work.plan import build_graph
from holdfast.core.work.tasks import TaskList, TaskSpec, input_keys

PLAN_SIGNAL, DOCUMENT_SIGNAL, DONE_SIGNAL = (
    "submit_plan",
    "submit_document",
    "submit_done",
)  # exit signals of agent phases


class PlanShape(StrEnum):
    """How the tasks of a plan follow each other."""

    SEQUENCE = "sequence"  # one after the other, each on the work of those before
    GRAPH = "graph"  # wave by wave, as their dependencies allow


class PhaseKind(StrEnum):
    """The kind of work in a phase."""

    AGENT = "agent"  # one conversation, which ends with its exit signal
    TASKS = "tasks"  # the plan's tasks
    REVIEW = "review"  # several reviewers at once
    COMPLETE = "complete"  # a summary, and publishing


class Publish(StrEnum):
    """Where the result is published."""

    NOTHING = "nothing"
    PUSH = "push"
    PR = "pr"


PhaseName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,39}$", description="small letters, digits and _")]
RoleName = Annotated[
    str,
    Meta(
        pattern="^[a-z][a-z0-9_]*(:[a-z0-9_-]+)?$",
        description="the role of its agent; `architect:security` is an architect with a name",
    ),
]


class PhaseSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One phase of a workflow."""

    name: PhaseName
    kind: Annotated[PhaseKind, Meta(description="an agent, the plan's tasks, a review, or the completion of all")] = (
        PhaseKind.AGENT
    )
    about: Annotated[str, Meta(description="one line for people")] = ""
    role: Annotated[RoleName | None, Meta(description="of an agent phase")] = None
    roles: Annotated[tuple[RoleName, ...], Meta(description="of a review: they work at the same time")] = ()
    agent: Annotated[str | None, Meta(description="the agent of the role, unless the config names one")] = None
    prompt: Annotated[str | None, Meta(description="the template; default: that of the role")] = None
    inputs: Annotated[tuple[PhaseName, ...], Meta(description="phases whose documents go into its prompts")] = ()
    exit: Annotated[
        str | None, Meta(description="the tool that ends it: submit_document, submit_plan, submit_done")
    ] = None
    sections: Annotated[tuple[str, ...], Meta(description="headings that its document must have")] = ()
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="its document is YAML or JSON data of this JSON schema, or of the schema in this file"),
    ] = None
    when: Annotated[str | None, Meta(description="skip it unless this holds: `plan.needs_design`, `not plan`, …")] = (
        None
    )
    optional: Annotated[bool, Meta(description="skip it unless requested by --with")] = False
    approval: Annotated[bool, Meta(description="a person must approve its result")] = False
    validate: Annotated[bool, Meta(description="the project's checks must pass; before a review, else at the end")] = (
        False
    )
    validators: Annotated[tuple[str, ...], Meta(description="only these of the project's checks, by their names")] = ()
    on_fail: Annotated[PhaseName | None, Meta(description="the phase to enter when its review or checks fail")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="how many rounds of it may fail in a row")] = 3
    on_limit: Annotated[PhaseName | None, Meta(description="the phase after that; default: ask a person")] = None
    detour: Annotated[bool, Meta(description="entered only by `on_fail`; returns to the phase that failed")] = False
    findings: Annotated[bool, Meta(description="of a tasks phase: turn the review's findings into a task")] = False
    next: Annotated[
        PhaseName | None, Meta(description="the phase after it; default: the next that is not a detour")
    ] = None
    publish: Annotated[Publish, Meta(description="of a complete phase: where to publish")] = Publish.NOTHING

    @property
    def has_checks(self) -> bool:
        """Whether the project's checks must pass."""
        return self.validate or bool(self.validators)

    @property
    def all_roles(self) -> tuple[str, ...]:
        """The roles of all its agents."""
        return (self.role,) if self.role is not None else self.roles


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without phases, a workflow consists of tasks only.

    `case`: the worker must argue that its task is done. `evaluate`: another agent must agree.
    """

    name: str
    about: str
    shape: Annotated[PlanShape, Meta(description="how tasks follow each other")] = PlanShape.SEQUENCE
    case: Annotated[bool, Meta(description="a worker must argue that its task is done")] = False
    validate: Annotated[bool, Meta(description="the project's checks must pass")] = True
    evaluate: Annotated[bool, Meta(description="another agent must agree that a task is done")] = False
    chat: Annotated[bool, Meta(description="a conversation that waits for its user after each turn")] = False
    interview: Annotated[bool, Meta(description="a chat in which an agent asks about the goal and proposes a plan")] = (
        False
    )
    phases: Annotated[tuple[PhaseSpec, ...], Meta(description="in the order in which they follow each other")] = ()

    def phase(self, name: str | None) -> PhaseSpec | None:
        return next((phase for phase in self.phases if phase.name == name), None)

    def phase_index(self, name: str) -> int:
        return next(index for index, phase in enumerate(self.phases) if phase.name == name)

    @property
    def planner(self) -> PhaseSpec | None:
        """The phase that submits the plan; change requests go there."""
        return next((phase for phase in self.phases if phase.exit == PLAN_SIGNAL), None)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run. None is no limit; limits of a task start over when it is reopened."""

    iterations: int = 8
    evaluator_calls: int = 4
    conflict_attempts: int = 2
    agent_deaths: int = 5  # in a row, within one session
    ask_when_interrupted: bool = False  # a person decides about interrupted turns
    auto_approve: bool = False  # phases need no person's approval
    parallel: int = 2
    reviewers: int | None = None  # at once; None is all of a review
    wall_clock: float | None = None
    tokens: int | None = None
    dollars: float | None = None
    task_tokens: int | None = None
    task_dollars: float | None = None
    idle: float = 0.0  # of a chat: how long it waits for its user before its runner ends


def build_plan(
    tasks: TaskList, shape: PlanShape, source: str | None = None, *, needs_design: bool = False
) -> PlanCreated:
    """The plan of a task list; raises `PlanRejected` when its dependencies have a cycle.

    In a sequence each task waits for the one before it, but its key depends only on the tasks that it names itself.
    """
    keys = input_keys(tasks.tasks)
    specs = _as_sequence(tasks.tasks) if shape is PlanShape.SEQUENCE else tasks.tasks
    checked = build_graph([task.id for task in specs], {task.id: task.depends_on for task in specs})
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


def _as_sequence(tasks: Sequence[TaskSpec]) -> list[TaskSpec]:
    """Each waits for the one before it, in the order that their own dependencies allow."""
    checked = build_graph([task.id for task in tasks], {task.id: task.depends_on for task in tasks})
    specs = {task.id: task for task in tasks}
    order = [name for wave in checked.waves for name in wave]
    place = {task.id: index for index, task in enumerate(tasks)}
    if all(place[needed] < place[task.id] for task in tasks for needed in task.depends_on):
        order = list(checked.tasks)  # the list's own order is valid
    before = [None, *order]
    return [
        msgspec.structs.replace(specs[name], depends_on=(previous,) if previous is not None else ())
        for previous, name in zip(before, order, strict=False)
    ]
