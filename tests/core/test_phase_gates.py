"""Checks at the end of a phase, the loops that they lead back through, and data that decide what is entered."""

import pytest

from holdfast.core.decide.phases import decide
from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import ArtifactStored, PhaseFailed, PhaseReopened, ReviewGiven
from holdfast.core.events.session import SessionStart
from holdfast.core.work.workflow import PhaseKind, PhaseSpec, Workflow
from tests.core.logs import fold_all, session_log
from tests.core.phase_logs import (
    BEGUN,
    BOUNDS,
    DONE_TASK,
    REVIEWED,
    REVIEWERS,
    completed,
    conversation_events,
    delivered,
    describe,
    next_of,
    plan,
    started,
    through,
)

LOOPS = Workflow(
    name="loops",
    about="checks that lead back",
    phases=(
        PhaseSpec(name="thinking", role="architect", exit="submit_document", validators=("lint",), on_fail="thinking"),
        PhaseSpec(name="building", kind=PhaseKind.TASKS, validate=True, on_fail="mending", limit=2, on_limit="ending"),
        PhaseSpec(name="looking", kind=PhaseKind.REVIEW, roles=("reviewer",), on_fail="mending"),
        PhaseSpec(name="mending", kind=PhaseKind.TASKS, detour=True),
        PhaseSpec(name="ending", kind=PhaseKind.COMPLETE, validate=True),
    ),
)
THOUGHT = (started("thinking"), delivered("thinking"))
MADE = (plan("A"), *completed("thinking"), started("building"), *DONE_TASK)


def checks(phase: str, round_: int = 1, *, passed: bool) -> ReviewGiven:
    return ReviewGiven(phase=phase, round=round_, role="validators", passed=passed)


def failing(phase: str, *rounds: int) -> tuple[Event, ...]:
    """Rounds of a phase whose checks did not pass."""
    return tuple(
        event
        for number in rounds
        for event in (started(phase, number), checks(phase, number, passed=False), *completed(phase, "failed", number))
    )


GATES: dict[str, tuple[tuple[Event, ...], str]] = {
    "what was handed in is checked": (THOUGHT, "check thinking validators"),
    "it passes": ((*THOUGHT, checks("thinking", passed=True)), "close thinking (done)"),
    "it does not": ((*THOUGHT, checks("thinking", passed=False)), "close thinking (failed)"),
    "so it is done again": (failing("thinking", 1), "enter thinking (thinking failed)"),
    "and again": (failing("thinking", 1, 2), "enter thinking (thinking failed)"),
    "not for ever": (failing("thinking", 1, 2, 3), "give up thinking (checks_cap)"),
    "unless a person has it tried again": (
        (
            *failing("thinking", 1, 2, 3),
            PhaseFailed(phase="thinking", round=3, reason="checks_cap"),
            PhaseReopened(phase="thinking"),
        ),
        "enter thinking (thinking failed)",
    ),
    "tasks that are merged are checked as a whole": (MADE, "check building validators"),
    "and mended where that fails": (
        (*MADE, checks("building", passed=False), *completed("building", "failed")),
        "enter mending (building failed)",
    ),
    "a detour leads back to who sent there": ((*failing("building", 1), *through("mending")), "enter building"),
    "also when that was the other": (
        (*through("building"), *failing("looking", 1), *through("mending")),
        "enter looking",
    ),
    "whoever failed before that": (
        (
            *through("building"),
            *failing("looking", 1),
            *through("mending"),
            *failing("building", 2),
            started("mending", 2),
            *completed("mending", "done", 2),
        ),
        "enter building",
    ),
    "at the limit it goes where that leads": (
        failing("building", 1, 2),
        "enter ending (building failed, and its limit is reached)",
    ),
    "what that leads to does not make it pass": (
        (*failing("building", 1, 2), *through("ending")),
        "give up building (checks_cap)",
    ),
    "so the run is not done": (
        (*failing("building", 1, 2), *through("ending"), PhaseFailed(phase="building", round=2, reason="checks_cap")),
        "stop (checks_cap)",
    ),
    "tried again, it is mended first": (
        (
            *failing("building", 1, 2),
            *through("ending"),
            PhaseFailed(phase="building", round=2, reason="checks_cap"),
            PhaseReopened(phase="building"),
        ),
        "enter mending (building failed)",
    ),
    "until it passes": (
        (
            *failing("building", 1, 2),
            *through("ending"),
            PhaseFailed(phase="building", round=2, reason="checks_cap"),
            PhaseReopened(phase="building"),
            *through("mending"),
            started("building", 3),
            *completed("building", "done", 3),
            *through("looking"),
            started("ending", 2),
            *completed("ending", "done", 2),
        ),
        "stop (all_done)",
    ),
    "what passed in between is counted anew": (
        (*failing("building", 1), *through("building"), *failing("building", 3)),
        "enter mending (building failed)",
    ),
    "nothing is given to others that does not pass": (
        (started("ending"), delivered("ending"), checks("ending", passed=False)),
        "close ending (failed)",
    ),
    "where nothing leads back a person is asked": (failing("ending", 1), "give up ending (checks_cap)"),
    "who can have it tried again": (
        (
            *failing("ending", 1),
            PhaseFailed(phase="ending", round=1, reason="checks_cap"),
            PhaseReopened(phase="ending"),
        ),
        "enter ending (ending failed)",
    ),
}


@pytest.mark.parametrize("what", GATES)
def test_checks_that_fail_lead_back_within_their_limit(what: str) -> None:
    events, expected = GATES[what]
    assert next_of(*events, workflow=LOOPS) == expected
    log = session_log(*BEGUN, *events) + session_log(SessionStart(command="resume"), sid="s2")
    assert describe(decide(fold_all(log), LOOPS, BOUNDS)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("risky: true", "enter looking"), ("risky: false", "leave out looking")]
)
def test_data_that_were_handed_in_can_decide_whether_a_phase_is_entered(text: str, expected: str) -> None:
    flow = Workflow(
        name="careful",
        about="one looks at it when it is risky",
        phases=(
            PhaseSpec(name="thinking", role="architect", schema={"properties": {"risky": {"type": "boolean"}}}),
            PhaseSpec(name="looking", role="architect", when="data.thinking.risky"),
        ),
    )
    stored = ArtifactStored(phase="thinking", round=1, name="thinking", title="t", text=text)
    assert next_of(started("thinking"), stored, *completed("thinking"), workflow=flow).startswith(expected)
    assert next_of(*completed("thinking", "skipped", 0), workflow=flow).startswith("leave out looking")


def reported(phase: str) -> BlockerReported:
    return BlockerReported(description="no key", phase=phase)


def test_a_review_that_somebody_cannot_give_is_given_up_once_and_nobody_else_begins() -> None:
    assert next_of(*REVIEWED, reported("reviewing")) == "give up reviewing (blocked)"
    silent = [event for role in REVIEWERS[:2] for _ in range(3) for event in _asked_in_vain(role)]
    assert next_of(*REVIEWED, *silent) == "give up reviewing (no_signal: reviewer:logic)"


def _asked_in_vain(role: str) -> tuple[Event, ...]:
    return conversation_events("reviewing", role, "end_turn")


def test_what_was_in_the_way_of_who_handed_in_no_longer_is() -> None:
    """Both may be taken in at once, after a death between the two."""
    log = (started("thinking"), reported("thinking"))
    assert next_of(*log, workflow=LOOPS) == "give up thinking (blocked)"
    state = fold_all(session_log(*BEGUN, *log, delivered("thinking")))
    assert state.issues == []
    assert describe(decide(state, LOOPS, BOUNDS)) == "check thinking validators"
    again = next_of(*log, delivered("thinking"), *failing("thinking", 1), started("thinking", 2), workflow=LOOPS)
    assert again == "tell thinking architect (begin)"
