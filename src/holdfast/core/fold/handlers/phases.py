"""Phases: where the workflow stands, and what was handed in, said and asked for on the way."""

import msgspec

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
from holdfast.core.fold.handlers.inbox import acted_on, drop_replies, give_back
from holdfast.core.fold.handlers.open_issues import issue_of, keep
from holdfast.core.log.codec import Line
from holdfast.core.messages.answers import approval_key, keep_answer
from holdfast.core.state import (
    RESEARCH,
    Approval,
    Document,
    GivenAnswer,
    OpenMessage,
    PhaseProgress,
    PhaseStatus,
    Research,
    Review,
    RunState,
)
from holdfast.core.text.fingerprint import fingerprint
from holdfast.core.work.research import is_wanted, waits_for_delivery

_PREFERENCES = 50  # the newest of a role
_EARLIER = 20  # the newest of a document


@on(WorkflowChosen)
def _workflow_chosen(state: RunState, _: Line, event: WorkflowChosen) -> None:
    state.workflow, state.wanted = event.workflow, event.wanted


@on(PhaseStarted)
def _phase_started(state: RunState, _: Line, event: PhaseStarted) -> None:
    for talk in [talk for phase in state.phases.values() for talk in phase.talks.values()]:
        give_back(state, talk)
    before = state.phases.get(event.phase) or PhaseProgress()
    if {*event.changes, *event.heard} - {*before.changes, *before.heard}:  # what follows is about something else
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
    for talk in phase.talks.values():
        acted_on(state, talk)
    state.issues = [  # what its agent reported as in its way no longer is
        one for one in state.issues if not (one.type == BlockerReported.type and one.detail.get("phase") == event.phase)
    ]


@on(PhaseCompleted)
def _phase_completed(state: RunState, _: Line, event: PhaseCompleted) -> None:
    phase = _phase(state, event.phase)
    phase.status = PhaseStatus.SKIPPED if event.outcome == SKIPPED else PhaseStatus.COMPLETE
    phase.outcome, phase.reason = event.outcome, event.reason
    if event.outcome != FAILED:  # what it does in a later loop is counted anew
        phase.tries = 0
    state.phase = event.phase
    for change in phase.changes:
        state.changes.pop(change, None)
    drop_replies(state, event.phase)


@on(PhaseFailed)
def _phase_failed(state: RunState, line: Line, event: PhaseFailed) -> None:
    phase = _phase(state, event.phase)
    phase.status, phase.reason = PhaseStatus.FAILED, event.reason
    keep(state, state.issues, line, issue_of(state, line, event))


@on(PhaseReopened)
def _phase_reopened(state: RunState, _: Line, event: PhaseReopened) -> None:
    """A review that had failed stays one that failed: what it found is to be fixed, whatever was entered since."""
    phase = _phase(state, event.phase)
    state.phase = event.phase
    phase.status = PhaseStatus.COMPLETE if phase.outcome == FAILED else PhaseStatus.IN_PROGRESS
    phase.reason, phase.tries = None, 0
    phase.approval = None
    if not phase.delivered:
        for role in [role for role in phase.talks if role not in phase.reviews]:
            give_back(state, phase.talks.pop(role))
    state.issues = [one for one in state.issues if one.detail.get("phase") != event.phase]


@on(ArtifactStored)
def _artifact_stored(state: RunState, _: Line, event: ArtifactStored) -> None:
    documents = _phase(state, event.phase).documents
    before = documents.get(event.name)
    earlier = [*before.earlier, fingerprint(before.text.encode(errors="replace"))] if before is not None else []
    asked, shown = (before.asked, before.before) if before is not None else (None, None)
    documents[event.name] = Document(event.title, event.text, earlier[-_EARLIER:], asked, shown)


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
    """Asked again, it is the same research; whoever asks now gets its answer."""
    known = state.research.get(event.research)
    if known is None:
        state.research[event.research] = Research(event.conversation, event.topic, event.question)
        return
    known.conversation = event.conversation
    if known.answered:
        _deliver(state, event.research, known)


@on(ResearchAnswered)
def _research_answered(state: RunState, _: Line, event: ResearchAnswered) -> None:
    """It is a message to whoever asked: with the task or the phase as its address, once."""
    research = state.research.get(event.research)
    if research is None or research.answered:
        return
    research.answered, research.answer = True, event.answer
    _deliver(state, event.research, research)


def _deliver(state: RunState, name: str, research: Research) -> None:
    asker = state.conversations.get(research.conversation)
    if asker is None or not is_wanted(state, asker) or waits_for_delivery(state, name):
        return
    body = msgspec.json.encode({"text": f"What was found out about {research.topic}:\n\n{research.answer or ''}"})
    state.messages[name] = OpenMessage(RESEARCH, "researcher", body.decode(), asker.task or asker.about)


@on(PreferencesProposed)
def _preferences_proposed(state: RunState, _: Line, event: PreferencesProposed) -> None:
    kept = state.preferences.setdefault(event.role, [])
    kept += [one for one in event.preferences if one not in kept]
    del kept[:-_PREFERENCES]


def _phase(state: RunState, name: str) -> PhaseProgress:
    return state.phases.setdefault(name, PhaseProgress())
