"""What a gate shows, and who makes the changes that are asked for at it."""

import pytest

from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events import Event
from holdfast.core.events.phase import ApprovalAnswered, ApprovalRequested, ArtifactStored, PhaseStarted, ReviewGiven
from holdfast.core.state import RunState
from holdfast.core.summary.gates import GateReview, change_target, gate_lines, gate_of, phase_awaiting_approval
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow
from tests.core.logs import analysis_of, fold_all, session_log

BEGUN = PhaseStarted(phase="p", round=1)
ASKED = ApprovalRequested(phase="p", round=1)
BACK = ApprovalAnswered(phase="p", round=1, approved=False)
AGAIN = PhaseStarted(phase="p", round=2)


def state_of(*events: Event) -> RunState:
    return fold_all(session_log(*events))


def stored(text: str) -> ArtifactStored:
    return ArtifactStored(phase="p", round=1, name="p", title="Plan", text=text)


def changed(*events: Event) -> str | None:
    gate = gate_of(state_of(*events), "p")
    assert gate is not None
    (document,) = gate.documents
    return document.changed


def test_first_time_there_is_nothing_to_compare() -> None:
    assert changed(BEGUN, stored("a\n"), ASKED) is None


def test_later_the_changes_are_those_since_it_was_asked_before() -> None:
    """Not since the last version: nobody was asked about that."""
    found = changed(BEGUN, stored("a\nb\n"), ASKED, BACK, AGAIN, stored("x\n"), stored("a\nc\n"), ASKED)
    assert found is not None
    assert found.splitlines()[1:] == [" a", "-b", "+c"]


def test_asked_twice_about_the_same_nothing_changed() -> None:
    assert changed(BEGUN, stored("a\n"), ASKED, BACK, ASKED) == ""


def test_lines_cannot_drive_a_terminal() -> None:
    state = state_of(BEGUN, stored("\x1b[2Ja\n\u202eb\n"), ASKED)
    gate = gate_of(state, "p")
    assert gate is not None
    assert all(line.isprintable() for line in gate_lines(gate))
    assert gate.documents[0].path == "artifacts/p/p.md"


def test_reviews_are_a_part_of_it() -> None:
    review = ReviewGiven(phase="p", round=1, role="reviewer", passed=True, summary="read")
    gate = gate_of(state_of(BEGUN, review, ASKED), "p")
    assert gate is not None
    assert gate.reviews == [GateReview("reviewer", True, "read")]


def test_run_waits_while_approval_is_asked_for() -> None:
    assert phase_awaiting_approval(state_of(BEGUN, ASKED)) == "p"
    assert phase_awaiting_approval(state_of(BEGUN, ASKED, BACK)) is None
    assert analysis_of(session_log(BEGUN, ASKED)).decision.case is ResumeCase.WAITING
    assert analysis_of(session_log(BEGUN, ASKED, BACK)).decision.case is not ResumeCase.WAITING


def phase(name: str, kind: PhaseKind = PhaseKind.AGENT, **more: object) -> PhaseSpec:
    return PhaseSpec(name=name, kind=kind, **more)  # type: ignore[arg-type]


SIZING, PLANNING = phase("sizing"), phase("planning", exit="submit_plan")
BUILDING, FIXING = phase("building", PhaseKind.TASKS), phase("fixing", PhaseKind.TASKS, detour=True)
REVIEWING, COMPLETING = phase("reviewing", PhaseKind.REVIEW), phase("completing", PhaseKind.COMPLETE)


@pytest.mark.parametrize(
    ("phases", "gate", "target"),
    [
        ((PLANNING, BUILDING, COMPLETING), COMPLETING, PLANNING),
        ((PLANNING, BUILDING), PLANNING, PLANNING),
        ((SIZING, PLANNING), SIZING, SIZING),
        ((SIZING, BUILDING), SIZING, SIZING),
        ((SIZING, BUILDING), BUILDING, BUILDING),
        ((SIZING, BUILDING, REVIEWING), REVIEWING, BUILDING),
        ((BUILDING, REVIEWING, FIXING, COMPLETING), COMPLETING, BUILDING),
        ((BUILDING, REVIEWING, FIXING), FIXING, BUILDING),
        ((SIZING, REVIEWING), REVIEWING, SIZING),
        ((REVIEWING, PLANNING), REVIEWING, PLANNING),
        ((REVIEWING, BUILDING), REVIEWING, None),
    ],
)
def test_who_makes_the_changes(phases: tuple[PhaseSpec, ...], gate: PhaseSpec, target: PhaseSpec | None) -> None:
    assert change_target(Workflow(name="w", about="a", phases=phases), gate) == target
