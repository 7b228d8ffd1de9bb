"""What each event draws."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.conversation.states import RecoveryStrategy
from holdfast.core.events import conversation as conversations
from holdfast.core.events.agent import AgentDied, AgentSpawned
from holdfast.core.events.base import Event
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended
from holdfast.core.events.phase import (
    FAILED,
    SKIPPED,
    ApprovalAnswered,
    ApprovalRequested,
    PhaseCompleted,
    PhaseFailed,
    PhaseStarted,
    ReviewGiven,
)
from holdfast.core.events.preparation import (
    BaselineFinished,
    BaselineStarted,
    WorktreeSetupFinished,
    WorktreeSetupStarted,
)
from holdfast.core.events.rewind import RunRewound
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped
from holdfast.core.events.work import TaskCommitted, ValidationFinished, ValidationStarted, VerdictGiven
from holdfast.core.timeline.canvas import RUN_LANE, Canvas, LaneKey, Speaker
from holdfast.core.timeline.shapes import LaneKind, SpanKind, SpanOutcome

_MAX_LABEL_CHARS = 160
_MERGE = "merge"  # the kind of the effect
_CANCELLED, _REFUSAL = "cancelled", "refusal"  # why a turn stopped

Handler = Callable[[Canvas, Any], None]


def _task_lane(task: str | int | None) -> LaneKey:
    return LaneKey(LaneKind.TASK, str(task)) if task is not None else RUN_LANE


def _phase_lane(phase: str) -> LaneKey:
    return LaneKey(LaneKind.PHASE, phase)


def _short(*parts: str | None) -> str:
    text = " ".join(": ".join(part for part in parts if part).split())
    return text if len(text) <= _MAX_LABEL_CHARS else f"{text[:_MAX_LABEL_CHARS]}…"


def _outcome(*, good: bool) -> SpanOutcome:
    return SpanOutcome.OK if good else SpanOutcome.FAILED


# conversations and agents


def _opened(canvas: Canvas, event: conversations.ConversationOpened) -> None:
    lane = _task_lane(event.task) if event.task is not None or event.about is None else _phase_lane(event.about)
    canvas.speakers[event.conversation] = Speaker(lane, event.role, event.agent)


def _attached(canvas: Canvas, event: conversations.ConversationAttached) -> None:
    if event.conversation in canvas.attached and event.rung != RecoveryStrategy.REATTACH:
        canvas.mark(canvas.lane_of(event.conversation), "resume", _short("continued", event.rung))
    canvas.attached.add(event.conversation)


def _turn_started(canvas: Canvas, event: conversations.TurnStarted) -> None:
    who = canvas.speakers.get(event.conversation)
    name = (who.agent or "agent").partition(":")[0] if who is not None else "agent"  # without a playbook's path
    label = f"{name} ({who.role})" if who is not None and who.role else "turn"
    canvas.begin(("turn", event.turn), canvas.lane_of(event.conversation), SpanKind.TURN, label, who)


def _turn_ended(canvas: Canvas, event: conversations.TurnEnded) -> None:
    if event.stop_reason == _CANCELLED:
        canvas.finish(("turn", event.turn), SpanOutcome.INTERRUPTED)
    else:
        canvas.finish(("turn", event.turn), _outcome(good=event.stop_reason != _REFUSAL))


def _turn_interrupted(canvas: Canvas, event: conversations.TurnInterrupted) -> None:
    canvas.finish(("turn", event.turn), SpanOutcome.INTERRUPTED)


def _permission_requested(canvas: Canvas, event: conversations.PermissionRequested) -> None:
    canvas.mark(canvas.lane_of(event.conversation), "permission", _short("asked for permission", event.title))


def _spawned(canvas: Canvas, event: AgentSpawned) -> None:
    canvas.agents[event.name] = _task_lane(event.task)


def _died(canvas: Canvas, event: AgentDied) -> None:
    """An agent that died with its session is drawn as the death of that."""
    lane = canvas.agents.pop(event.name, None)
    if lane is not None:
        canvas.add_death("agent", _short(event.name, event.reason), lane)


def _used(canvas: Canvas, event: UsageRecorded) -> None:
    dollars = event.dollars if event.priced or event.dollars > 0 else None
    canvas.spend(event.input_tokens + event.output_tokens, dollars)


# tasks


def _checks_started(canvas: Canvas, event: ValidationStarted) -> None:
    canvas.begin(("check", str(event.task_id)), _task_lane(event.task_id), SpanKind.CHECK, "checks", None)


def _checks_finished(canvas: Canvas, event: ValidationFinished) -> None:
    label = "checks passed" if event.passed else _short("checks failed", ", ".join(event.failed))
    if event.passed and event.excused:
        label = _short(f"{label}; failed as before the work", ", ".join(event.excused))
    canvas.finish(("check", str(event.task_id)), _outcome(good=event.passed), label)


def _verdict(canvas: Canvas, event: VerdictGiven) -> None:
    label = _short("accepted" if event.accept else "rejected", event.concern or event.category)
    canvas.mark(_task_lane(event.task_id), "verdict", label, good=event.accept)


def _committed(canvas: Canvas, event: TaskCommitted) -> None:
    if event.commit is not None:
        canvas.mark(_task_lane(event.task_id), "commit", f"committed {event.commit[:12]}")


def _task_completed(canvas: Canvas, event: TaskCompleted) -> None:
    canvas.mark(_task_lane(event.task_id), "completed", "completed", good=True)


def _task_failed(canvas: Canvas, event: TaskFailed) -> None:
    canvas.mark(_task_lane(event.task_id), "failed", _short("failed", event.error), good=False)


def _task_skipped(canvas: Canvas, event: TaskSkipped) -> None:
    canvas.mark(_task_lane(event.task_id), "skipped", _short("skipped", event.reason))


# phases


def _phase_started(canvas: Canvas, event: PhaseStarted) -> None:
    canvas.mark(_phase_lane(event.phase), "started", f"round {event.round}" if event.round > 1 else "started")


def _phase_completed(canvas: Canvas, event: PhaseCompleted) -> None:
    kind = {SKIPPED: "skipped", FAILED: "failed"}.get(event.outcome, "completed")
    good = None if kind == "skipped" else kind == "completed"
    canvas.mark(_phase_lane(event.phase), kind, _short(event.outcome, event.reason), good=good)


def _phase_failed(canvas: Canvas, event: PhaseFailed) -> None:
    canvas.mark(_phase_lane(event.phase), "failed", _short("failed", event.reason), good=False)


def _reviewed(canvas: Canvas, event: ReviewGiven) -> None:
    label = _short(f"{event.role} {'passed' if event.passed else 'failed'} it", event.summary)
    canvas.mark(_phase_lane(event.phase), "verdict", label, good=event.passed)


def _approval_requested(canvas: Canvas, event: ApprovalRequested) -> None:
    canvas.mark(_phase_lane(event.phase), "approval", _short("asked for approval", event.summary))


def _approval_answered(canvas: Canvas, event: ApprovalAnswered) -> None:
    label = _short("approved" if event.approved else "not approved", event.reason)
    canvas.mark(_phase_lane(event.phase), "verdict", label, good=event.approved)


# branches, preparation, the run


def _branch_created(canvas: Canvas, event: BranchCreated) -> None:
    canvas.branches[event.name] = _task_lane(event.task)


def _branch_merged(canvas: Canvas, event: BranchMerged) -> None:
    lane = canvas.branches.get(event.name, RUN_LANE)
    canvas.mark(lane, "merge", _short("merged", f"into {event.target}" if event.target else None), good=True)


def _effect_intended(canvas: Canvas, event: EffectIntended) -> None:
    if event.kind == _MERGE:
        canvas.begin(("effect", event.effect), _task_lane(event.task), SpanKind.MERGE, "merge", None)


def _effect_settled(canvas: Canvas, event: EffectHappened | EffectDidNotHappen) -> None:
    canvas.finish(("effect", event.effect), _outcome(good=isinstance(event, EffectHappened)))


def _setup_started(canvas: Canvas, event: WorktreeSetupStarted) -> None:
    canvas.begin(
        ("setup", str(event.task)), _task_lane(event.task), SpanKind.SETUP, _short("setup", event.command), None
    )


def _setup_finished(canvas: Canvas, event: WorktreeSetupFinished) -> None:
    canvas.finish(("setup", str(event.task)), _outcome(good=event.passed))


def _baseline_started(canvas: Canvas, _: BaselineStarted) -> None:
    canvas.begin(("baseline", ""), RUN_LANE, SpanKind.CHECK, "checks on the untouched base", None)


def _baseline_finished(canvas: Canvas, event: BaselineFinished) -> None:
    canvas.finish(("baseline", ""), _outcome(good=not event.failed))


def _rewound(canvas: Canvas, event: RunRewound) -> None:
    canvas.mark(RUN_LANE, "rewind", _short("rewound", event.point))


_BY_EVENT: dict[type[Event], Handler] = {
    conversations.ConversationOpened: _opened,
    conversations.ConversationAttached: _attached,
    conversations.TurnStarted: _turn_started,
    conversations.TurnEnded: _turn_ended,
    conversations.TurnInterrupted: _turn_interrupted,
    conversations.PermissionRequested: _permission_requested,
    AgentSpawned: _spawned,
    AgentDied: _died,
    UsageRecorded: _used,
    ValidationStarted: _checks_started,
    ValidationFinished: _checks_finished,
    VerdictGiven: _verdict,
    TaskCommitted: _committed,
    TaskCompleted: _task_completed,
    TaskFailed: _task_failed,
    TaskSkipped: _task_skipped,
    PhaseStarted: _phase_started,
    PhaseCompleted: _phase_completed,
    PhaseFailed: _phase_failed,
    ReviewGiven: _reviewed,
    ApprovalRequested: _approval_requested,
    ApprovalAnswered: _approval_answered,
    BranchCreated: _branch_created,
    BranchMerged: _branch_merged,
    EffectIntended: _effect_intended,
    EffectHappened: _effect_settled,
    EffectDidNotHappen: _effect_settled,
    WorktreeSetupStarted: _setup_started,
    WorktreeSetupFinished: _setup_finished,
    BaselineStarted: _baseline_started,
    BaselineFinished: _baseline_finished,
    RunRewound: _rewound,
}
HANDLERS: Mapping[str, Handler] = {kind.type: handler for kind, handler in _BY_EVENT.items()}
