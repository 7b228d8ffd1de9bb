"""Applies the reports of a phase's agent or of a researcher to the run."""

from collections.abc import Sequence

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported, WarningLogged
from holdfast.core.events.phase import (
    ArtifactStored,
    PhaseDelivered,
    PreferencesProposed,
    ResearchAnswered,
    ResearchRequested,
    ReviewGiven,
)
from holdfast.core.events.work import ProgressReported
from holdfast.core.messages.signals import (
    PlannedStep,
    ReportBlocker,
    ReportProgress,
    RequestResearch,
    Signal,
    SubmitDocument,
    SubmitDone,
    SubmitPlan,
    SubmitResearch,
    SubmitReview,
)
from holdfast.core.phase_state import PhaseProgress, PhaseStatus
from holdfast.core.state import Conversation, RunState
from holdfast.core.work.research import find_same_research, is_answer_pending
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import PhaseSpec, Workflow, build_plan
from holdfast.workflows.artifacts import document_mistakes

MAX_RESEARCH_REQUESTS = 50  # per run


def phase_report_events(state: RunState, workflow: Workflow, conversation_id: str, signal: Signal) -> list[Event]:
    """Return the events of a conversation that belongs to no task; a remark if it is late or not expected."""
    conversation = state.conversations.get(conversation_id) or Conversation()
    if isinstance(signal, ReportProgress):
        return [ProgressReported(text=signal.text)]
    research = state.research.get(conversation.about or "")
    if research is not None:
        if isinstance(signal, SubmitResearch) and research.talk == conversation_id and not research.answered:
            return [ResearchAnswered(research=conversation.about or "", answer=signal.answer)]
        return [_unexpected_report(signal, f"the question {conversation.about}")]
    spec, progress = workflow.phase(conversation.about), state.phases.get(conversation.about or "")
    if spec is None or progress is None:
        return [WarningLogged(message=f"{signal.tool} came from a conversation without a task or phase")]
    current = state.phase == spec.name and progress.status is PhaseStatus.IN_PROGRESS
    if not current or progress.talks.get(conversation.role or "") != conversation_id or progress.delivered:
        return [_unexpected_report(signal, spec.name)]
    return _events_in_phase(state, workflow, (spec, progress), conversation_id, signal)


def _events_in_phase(
    state: RunState, workflow: Workflow, phase: tuple[PhaseSpec, PhaseProgress], conversation_id: str, signal: Signal
) -> list[Event]:
    (spec, progress), role = phase, state.conversations[conversation_id].role or "agent"
    match signal:
        case RequestResearch():
            return research_events(state, conversation_id, signal)
        case ReportBlocker():
            needed = f" (needed: {signal.needed})" if signal.needed else ""
            return [BlockerReported(description=f"{signal.reason}{needed}", phase=spec.name)]
        case SubmitReview() if role not in progress.reviews and role in spec.roles:
            findings = msgspec.Raw(msgspec.json.encode(signal.findings))
            given = ReviewGiven(
                phase=spec.name,
                round=progress.round,
                role=role,
                passed=signal.passed,
                summary=signal.summary,
                findings=findings,
            )
            return [given, *_preference_events(role, signal.preferences)]
        case SubmitDocument() | SubmitPlan() | SubmitDone() if signal.tool == spec.exit:
            return _delivery_events(state, workflow, phase, conversation_id, signal)
    return [_unexpected_report(signal, spec.name)]


def _delivery_events(
    state: RunState,
    workflow: Workflow,
    phase: tuple[PhaseSpec, PhaseProgress],
    conversation_id: str,
    signal: SubmitDocument | SubmitPlan | SubmitDone,
) -> list[Event]:
    """Return the result of a phase and its end as one commit, so that no plan is half made."""
    (spec, progress), role = phase, state.conversations[conversation_id].role or "agent"
    delivered = PhaseDelivered(phase=spec.name, round=progress.round, tool=signal.tool)
    stored = ArtifactStored(
        phase=spec.name, round=progress.round, name=spec.name, title=spec.name, text="", conversation=conversation_id
    )
    match signal:
        case SubmitPlan():
            tasks = tuple(_task_spec(step) for step in signal.tasks)
            plan = build_plan(
                TaskList(tasks=tasks, overview=signal.notes), workflow.shape, needs_design=signal.needs_design
            )
            page = msgspec.structs.replace(stored, title="Plan", text=_plan_page(signal))
            return [plan, page, *_preference_events(role, signal.preferences), delivered]
        case SubmitDocument():
            wrong = document_mistakes(signal.text, spec)
            if wrong:
                return [WarningLogged(message=f"the document of {spec.name} was not accepted: {'; '.join(wrong)}")]
            page = msgspec.structs.replace(stored, title=signal.title, text=signal.text)
            return [page, *_preference_events(role, signal.preferences), delivered]
        case SubmitDone():
            page = msgspec.structs.replace(stored, title="Summary", text=signal.summary)
            return [page, *_preference_events(role, signal.preferences), delivered]


def research_events(state: RunState, conversation_id: str, signal: RequestResearch) -> list[Event]:
    """Return nothing if the same question is being researched, or its answer is not delivered yet."""
    known = find_same_research(state, conversation_id, signal.question)
    if known is not None:
        research = state.research[known]
        is_waiting = is_answer_pending(state, known) if research.answered else research.conversation == conversation_id
        request = ResearchRequested(
            research=known, conversation=conversation_id, topic=research.topic, question=research.question
        )
        return [] if is_waiting else [request]
    number = len(state.research) + 1
    if number > MAX_RESEARCH_REQUESTS:
        return [
            WarningLogged(message=f"the limit of {MAX_RESEARCH_REQUESTS} research questions is reached: {signal.topic}")
        ]
    question = signal.question
    return [
        ResearchRequested(
            research=f"research-{number}", conversation=conversation_id, topic=signal.topic, question=question
        )
    ]


def _preference_events(role: str, preferences: Sequence[str]) -> list[Event]:
    return [PreferencesProposed(role=role, preferences=list(preferences))] if preferences else []


def _task_spec(step: PlannedStep) -> TaskSpec:
    return TaskSpec(
        id=step.id,
        title=step.title,
        description=step.description,
        acceptance_criteria=tuple(step.acceptance_criteria),
        depends_on=tuple(step.depends_on),
        files=tuple(step.files),
    )


def _plan_page(signal: SubmitPlan) -> str:
    """Return the plan as a page for people; the run itself uses `plan.created`."""
    parts = ["# Plan", signal.notes] if signal.notes else ["# Plan"]
    for step in signal.tasks:
        after = f"After {', '.join(step.depends_on)}." if step.depends_on else ""
        criteria = "\n".join(f"- {criterion}" for criterion in step.acceptance_criteria)
        parts += [part for part in (f"## {step.id}: {step.title}", after, step.description, criteria) if part]
    return "\n\n".join(parts) + "\n"


def _unexpected_report(signal: Signal, about: str) -> WarningLogged:
    return WarningLogged(message=f"{signal.tool} came for {about} when it was not expected")
