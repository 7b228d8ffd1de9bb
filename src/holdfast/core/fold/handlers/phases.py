"""Handlers of phase events: progress, documents, reviews, approvals, change requests, research."""

from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import (
    FAILED,
    SKIPPED,
    ApprovalAnswered,
    ApprovalRequested,
    ArtifactStored,
    ChangeRequested,
    PhaseCompleted,
    PhaseDelivered,
    PhaseFailed,
    PhaseReopened,
    PhaseStarted,
    PreferencesProposed,
    ResearchAnswered,
    ResearchRequested,
    ReviewGiven,
    WorkflowChosen,
    WorkPublished,
)
from holdfast.core.fold.handlers.base import on
from holdfast.core.fold.handlers.inbox import drop_replies, mark_delivered, requeue_unheard
from holdfast.core.fold.handlers.open_issues import add_issue, issue_from_event
from holdfast.core.log.codec import Line
from holdfast.core.messages.answers import approval_key, keep_answer
from holdfast.core.messages.schema import ResearchReply, encode_body
from holdfast.core.phase_state import Approval, Document, PhaseProgress, PhaseStatus, Research, Review
from holdfast.core.state import GivenAnswer, OpenMessage, RunState
from holdfast.core.task_index import open_research
from holdfast.core.text.fingerprint import fingerprint
from holdfast.core.work.research import is_answer_pending, is_wanted

_MAX_PREFERENCES = 50  # the newest, per role
_MAX_EARLIER = 20  # the newest, per document


@on(WorkflowChosen)
def _workflow_chosen(state: RunState, _: Line, event: WorkflowChosen) -> None:
    state.workflow, state.wanted = event.workflow, event.wanted


@on(PhaseStarted)
def _phase_started(state: RunState, _: Line, event: PhaseStarted) -> None:
    for conversation_id in [key for phase in state.phases.values() for key in phase.talks.values()]:
        requeue_unheard(state, conversation_id)
    before = state.phases.get(event.phase) or PhaseProgress()
    if {*event.changes, *event.heard} - {*before.changes, *before.heard}:  # the next rounds are about new changes
        for other in state.phases.values():
            other.tries = 0
    found = {role: review for role, review in before.reviews.items() if not review.passed}
    last = state.phases.get(state.phase or "")
    sent = last is not None and last.outcome == FAILED and state.phase != event.phase
    sender = state.phase if sent else before.sender
    state.issues = [i for i in state.issues if i.type != PhaseFailed.type or i.detail.get("phase") != event.phase]
    state.phase = event.phase
    state.phases[event.phase] = PhaseProgress(
        round=event.round,
        tries=before.tries + 1,
        changes=event.changes,
        heard=event.heard,
        sender=sender,
        documents=before.documents,
        asked=before.asked,
        found=found if before.outcome == FAILED else {},
    )


@on(PhaseDelivered)
def _phase_delivered(state: RunState, _: Line, event: PhaseDelivered) -> None:
    phase = _phase(state, event.phase)
    phase.delivered = True
    for conversation_id in phase.talks.values():
        mark_delivered(state, conversation_id)
    state.issues = [  # blockers that its agent reported are resolved
        issue
        for issue in state.issues
        if not (issue.type == BlockerReported.type and issue.detail.get("phase") == event.phase)
    ]


@on(PhaseCompleted)
def _phase_completed(state: RunState, _: Line, event: PhaseCompleted) -> None:
    phase = _phase(state, event.phase)
    phase.status = PhaseStatus.SKIPPED if event.outcome == SKIPPED else PhaseStatus.COMPLETE
    phase.outcome, phase.reason = event.outcome, event.reason
    if event.outcome != FAILED:  # a later loop starts counting again
        phase.tries = 0
    state.phase = event.phase
    for change in phase.changes:
        state.changes.pop(change, None)
    drop_replies(state, event.phase)


@on(PhaseFailed)
def _phase_failed(state: RunState, line: Line, event: PhaseFailed) -> None:
    phase = _phase(state, event.phase)
    phase.status, phase.reason = PhaseStatus.FAILED, event.reason
    add_issue(state, state.issues, line, issue_from_event(state, line, event))


@on(PhaseReopened)
def _phase_reopened(state: RunState, _: Line, event: PhaseReopened) -> None:
    """A failed review stays failed: its findings must be fixed, whatever phase was entered since."""
    phase = _phase(state, event.phase)
    state.phase = event.phase
    phase.status = PhaseStatus.COMPLETE if phase.outcome == FAILED else PhaseStatus.IN_PROGRESS
    phase.reason, phase.tries = None, 0
    phase.approval = None
    if not phase.delivered:
        for role in [role for role in phase.talks if role not in phase.reviews]:
            requeue_unheard(state, phase.talks.pop(role))
    state.issues = [issue for issue in state.issues if issue.detail.get("phase") != event.phase]


@on(ArtifactStored)
def _artifact_stored(state: RunState, _: Line, event: ArtifactStored) -> None:
    documents = _phase(state, event.phase).documents
    before = documents.get(event.name)
    earlier = [*before.earlier, fingerprint(before.text.encode(errors="replace"))] if before is not None else []
    requested, shown = (before.asked, before.before) if before is not None else (None, None)
    documents[event.name] = Document(event.title, event.text, earlier[-_MAX_EARLIER:], requested, shown)


@on(ReviewGiven)
def _review_given(state: RunState, _: Line, event: ReviewGiven) -> None:
    review = Review(event.passed, event.summary, bytes(event.findings).decode())
    _phase(state, event.phase).reviews[event.role] = review


@on(ApprovalRequested)
def _approval_requested(state: RunState, _: Line, event: ApprovalRequested) -> None:
    phase = _phase(state, event.phase)
    phase.approval = Approval.ASKED
    phase.asked += 1
    for document in phase.documents.values():
        document.before, document.asked = document.asked, document.text


@on(ApprovalAnswered)
def _approval_answered(state: RunState, line: Line, event: ApprovalAnswered) -> None:
    _phase(state, event.phase).approval = Approval.GIVEN if event.approved else None
    if event.message is not None:
        key = approval_key(event.phase)
        given = GivenAnswer(
            key,
            f"{event.phase} asks for your approval",
            event.approved,
            event.by,
            line.ts,
            reason=event.reason,
            sid=line.sid,
        )
        keep_answer(state, event.message, given)


@on(ChangeRequested)
def _change_requested(state: RunState, _: Line, event: ChangeRequested) -> None:
    state.changes[event.change] = event.text


@on(WorkPublished)
def _work_published(state: RunState, _: Line, event: WorkPublished) -> None:
    _phase(state, event.phase).published = True


@on(ResearchRequested)
def _research_requested(state: RunState, _: Line, event: ResearchRequested) -> None:
    """A repeated request is the same research; the conversation that asks now gets the answer."""
    known = state.research.get(event.research)
    if known is None:
        research = Research(event.conversation, event.topic, event.question)
        state.research[event.research] = open_research(state)[event.research] = research
        return
    known.conversation = event.conversation
    if known.answered:
        _queue_answer(state, event.research, known)


@on(ResearchAnswered)
def _research_answered(state: RunState, _: Line, event: ResearchAnswered) -> None:
    """The answer becomes one message to the task or phase of the asking agent."""
    research = state.research.get(event.research)
    if research is None or research.answered:
        return
    research.answered, research.answer = True, event.answer
    open_research(state).pop(event.research, None)
    _queue_answer(state, event.research, research)


def _queue_answer(state: RunState, research_id: str, research: Research) -> None:
    asker = state.conversations.get(research.conversation)
    if asker is None or not is_wanted(state, asker) or is_answer_pending(state, research_id):
        return
    reply = ResearchReply(f"What was found out about {research.topic}:\n\n{research.answer or ''}")
    body = bytes(encode_body(reply)).decode()
    state.messages[research_id] = OpenMessage(reply.kind, "researcher", body, asker.task or asker.about)


@on(PreferencesProposed)
def _preferences_proposed(state: RunState, _: Line, event: PreferencesProposed) -> None:
    preferences = state.preferences.setdefault(event.role, [])
    preferences += [preference for preference in event.preferences if preference not in preferences]
    del preferences[:-_MAX_PREFERENCES]


def _phase(state: RunState, name: str) -> PhaseProgress:
    return state.phases.setdefault(name, PhaseProgress())
