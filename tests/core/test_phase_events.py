"""What each event of a phase makes of the state."""

import pytest
from msgspec import Raw

from holdfast.core.events.conversation import ConversationOpened
from holdfast.core.events.phase import (
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
from holdfast.core.phase_state import Approval, Document, PhaseProgress, PhaseStatus, Research, Review
from holdfast.core.state import OpenMessage
from holdfast.core.text.fingerprint import fingerprint
from tests.core.logs import Row, fold_once, row, session_log

BEGUN = PhaseStarted(phase="p", round=1)
AGAIN = PhaseStarted(phase="p", round=2)
STORED = ArtifactStored(phase="p", round=1, name="n", title="t", text="x")
REVIEW = ReviewGiven(phase="p", round=1, role="r", passed=False, summary="s", findings=Raw(b"[1]"))
FAILED = PhaseFailed(phase="p", round=1, reason="why")
DONE = PhaseCompleted(phase="p", round=1, outcome="done")
SENT_BACK = PhaseCompleted(phase="p", round=1, outcome="failed")
ASKED = ApprovalRequested(phase="p", round=1)
CHANGE = ChangeRequested(change="m", text="otherwise")
ASKER = ConversationOpened(conversation="c", role="planner", about="p")
QUESTION = ResearchRequested(research="r-1", conversation="c", topic="t", question="q")
DOCUMENTS = {"n": Document("t", "x")}


def of(**more: object) -> dict[str, PhaseProgress]:
    return {"p": PhaseProgress(**{"round": 1, "tries": 1, **more})}  # type: ignore[arg-type]


PHASES: list[Row] = [
    row("a workflow is kept whole", WorkflowChosen(workflow={"name": "w"}, wanted=["p"]), workflow={"name": "w"}),
    row("and what was asked for", WorkflowChosen(workflow={"name": "w"}, wanted=["p"]), wanted=["p"]),
    row("a phase begins", BEGUN, phases=of()),
    row("it is the one", BEGUN, phase="p"),
    row("it delivered", BEGUN, PhaseDelivered(phase="p", round=1, tool="t"), phases=of(delivered=True)),
    row("it is over", BEGUN, DONE, phases=of(status=PhaseStatus.COMPLETE, outcome="done", tries=0)),
    row(
        "what did not pass is known in the round after it",
        *(BEGUN, REVIEW, SENT_BACK, AGAIN),
        phases=of(round=2, tries=2, found={"r": Review(False, "s", "[1]")}),
    ),
    row(
        "a document knows what it took the place of",
        *(BEGUN, STORED, ArtifactStored(phase="p", round=1, name="n", title="t", text="y")),
        phases=of(documents={"n": Document("t", "y", [fingerprint(b"x")])}),
    ),
    row("one that was left out is the newest", PhaseCompleted(phase="q", round=0, outcome="skipped"), phase="q"),
    row("a document stays over rounds", BEGUN, STORED, AGAIN, phases=of(round=2, tries=2, documents=DOCUMENTS)),
    row("a review does not", BEGUN, REVIEW, AGAIN, phases=of(round=2, tries=2)),
    row("a review", BEGUN, REVIEW, phases=of(reviews={"r": Review(False, "s", "[1]")})),
    row("it failed", BEGUN, FAILED, phases=of(status=PhaseStatus.FAILED, reason="why")),
    row("it goes on", BEGUN, FAILED, PhaseReopened(phase="p"), phases=of(tries=0)),
    row("nothing stands in its way then", BEGUN, FAILED, PhaseReopened(phase="p"), issues=[]),
    row(
        "a review that failed goes on as one that failed",
        BEGUN,
        SENT_BACK,
        FAILED,
        PhaseReopened(phase="p"),
        phases=of(status=PhaseStatus.COMPLETE, outcome="failed", tries=0),
    ),
    row("approval is asked", BEGUN, ASKED, phases=of(approval=Approval.ASKED, asked=1)),
    row(
        "and given",
        BEGUN,
        ASKED,
        ApprovalAnswered(phase="p", round=1, approved=True),
        phases=of(approval=Approval.GIVEN, asked=1),
    ),
    row("or not", BEGUN, ASKED, ApprovalAnswered(phase="p", round=1, approved=False), phases=of(asked=1)),
    row("the work was published", BEGUN, WorkPublished(phase="p", round=1), phases=of(published=True)),
    row("a change is wanted", CHANGE, changes={"m": "otherwise"}),
    row("until a phase that had it is over", CHANGE, PhaseStarted(phase="p", round=1, changes=["m"]), DONE, changes={}),
    row("not by one that had it not", CHANGE, BEGUN, DONE, changes={"m": "otherwise"}),
    row("a question", BEGUN, ASKER, QUESTION, research={"r-1": Research("c", "t", "q")}),
    row(
        "its answer is a message to whoever asked",
        BEGUN,
        ASKER,
        QUESTION,
        ResearchAnswered(research="r-1", answer="a"),
        messages={"r-1": OpenMessage("research", "researcher", '{"text":"What was found out about t:\\n\\na"}', "p")},
    ),
    row(
        "preferences, each once",
        PreferencesProposed(role="r", preferences=["a"]),
        PreferencesProposed(role="r", preferences=["a", "b"]),
        preferences={"r": ["a", "b"]},
    ),
]


@pytest.mark.parametrize("case", PHASES, ids=[case.fact for case in PHASES])
def test_fact(case: Row) -> None:
    assert getattr(fold_once(session_log(*case.events)).state, case.field) == case.expected
