"""Logs of a pipeline, made by hand: which phases there were and what came of each, in few words."""

from typing import Any

from msgspec import Raw

from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, RuntimeFacts
from holdfast.core.decide.phases import decide
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.events.phase import (
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    ChangeRequested,
    PhaseCompleted,
    PhaseDelivered,
    PhaseStarted,
    ReviewGiven,
    WorkflowChosen,
)
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskSkipped, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.messages.schema import MessageKind
from holdfast.core.state import RunState
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import Bounds, PlanShape, Workflow, build_plan
from holdfast.workflows.builtin import find_workflow
from tests.core.logs import fold_all, session_log

PIPELINE = find_workflow("pipeline")
BOUNDS = Bounds(parallel=3)
BEGUN: tuple[Event, ...] = (
    SessionStart(),
    RunCreated(run_id="r", goal="g", workflow="pipeline"),
    WorkflowChosen(workflow={"name": "pipeline"}),
)
REVIEWERS = ("reviewer:logic", "reviewer:quality", "reviewer:expert")


def state_of(*events: Event) -> RunState:
    return fold_all(session_log(*BEGUN, *events))


def next_of(
    *events: Event, workflow: Workflow = PIPELINE, bounds: Bounds = BOUNDS, facts: RuntimeFacts = NOTHING_IN_PROGRESS
) -> str:
    """What a run with this log does next."""
    return describe(decide(state_of(*events), workflow, bounds, facts))


def describe(actions: list[Action]) -> str:
    return "; ".join(_describe(action) for action in actions)


def _describe(action: Action) -> str:
    wave = str(action.wave) if action.wave is not None else None
    about = (action.phase, action.role, action.research, action.task, wave)
    words = " ".join(part for part in (action.kind, *about) if part)
    return words + "".join(f" ({part})" for part in (action.prompt_kind, action.reason) if part)


def started(phase: str, round_: int = 1, **more: Any) -> PhaseStarted:
    return PhaseStarted(phase=phase, round=round_, **more)


def completed(phase: str, outcome: str = "done", round_: int = 1) -> tuple[Event, ...]:
    return (PhaseCompleted(phase=phase, round=round_, outcome=outcome),)


def through(phase: str, outcome: str = "done") -> tuple[Event, ...]:
    return (started(phase), *completed(phase, outcome))


def conversation_events(phase: str, role: str, last: str | None = None, name: str | None = None) -> tuple[Event, ...]:
    """A conversation of a phase; its turn ended so, or was cut off when nothing is said."""
    conversation = name or f"c-{role}"
    opened = ConversationOpened(conversation=conversation, agent="a", role=role, about=phase)
    return (opened, *turn(conversation, last))


def turn(conversation: str, last: str | None, *messages: str) -> tuple[Event, ...]:
    begun = TurnStarted(conversation=conversation, turn="t", messages=list(messages))
    if last is None:
        return (begun, TurnInterrupted(conversation=conversation, turn="t"))
    return (begun, TurnEnded(conversation=conversation, turn="t", stop_reason=last))


def delivered(phase: str, tool: str = "submit_document") -> PhaseDelivered:
    return PhaseDelivered(phase=phase, round=1, tool=tool)


def document(phase: str) -> ArtifactStored:
    return ArtifactStored(phase=phase, round=1, name=phase, title="t", text="x")


def plan(*names: str, needs_design: bool = False) -> Event:
    tasks = tuple(TaskSpec(id=name, title=f"make {name}") for name in names)
    return build_plan(TaskList(tasks=tasks), PlanShape.GRAPH, needs_design=needs_design)


def review(role: str = "validators", *, passed: bool = True, round_: int = 1) -> ReviewGiven:
    return ReviewGiven(phase="reviewing", round=round_, role=role, passed=passed, findings=Raw(b"[]"))


def words(key: str, task: str | None = None) -> InboxConsumed:
    body = b'{"text":"more","task":"%s"}' % task.encode() if task is not None else b'{"text":"more"}'
    return InboxConsumed(cursor=1, message=key, kind=MessageKind.USER, body=Raw(body))


LEFT_OUT = completed("product_management", "skipped", 0)
PLANNED: tuple[Event, ...] = (
    *LEFT_OUT,
    *through("architecting"),
    started("planning"),
    plan("A"),
    delivered("planning", "submit_plan"),
    *completed("planning"),
    *completed("designing", "skipped", 0),
)
DONE_TASK: tuple[Event, ...] = (
    WaveStarted(wave=1),
    TaskStarted(task_id="A"),
    TaskCompleted(task_id="A"),
    WaveCompleted(wave=1),
)
SKIPPED_TASK = TaskSkipped(task_id="A")
BUILT: tuple[Event, ...] = (*PLANNED, started("implementing"), *DONE_TASK, *completed("implementing"))
REVIEWED: tuple[Event, ...] = (*BUILT, started("reviewing"), review())
CHANGE = ChangeRequested(change="m1", text="otherwise")
DRAFTED: tuple[Event, ...] = (
    WorkflowChosen(workflow={}, wanted=["product_management"]),
    started("product_management"),
    delivered("product_management"),
    ApprovalRequested(phase="product_management", round=1),
)
DENIED = ApprovalAnswered(phase="product_management", round=1, approved=False)
HEARD = (*DRAFTED, DENIED, CHANGE, started("product_management", 2, heard=["m1"]), delivered("product_management"))
