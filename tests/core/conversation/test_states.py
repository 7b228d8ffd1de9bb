"""States, needs and the ladder, as tables."""

from itertools import product

import pytest

from holdfast.core.conversation.states import (
    ENDED_STATES,
    SESSION_UNAVAILABLE_CODE,
    AgentActivity,
    Capability,
    ConversationState,
    InvalidTransition,
    RecoveryStrategy,
    ResumeNeed,
    check_transition,
    is_rejection,
    needs_resume,
    next_strategy,
    recovery_strategies,
)

ALLOWED = {
    ("created", "starting"),
    ("created", "failed"),
    ("created", "cancelled"),
    ("starting", "starting"),
    ("starting", "running"),
    ("starting", "waiting_for_input"),
    ("starting", "failed"),
    ("starting", "cancelled"),
    ("running", "starting"),
    ("running", "waiting_for_input"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("waiting_for_input", "starting"),
    ("waiting_for_input", "running"),
    ("waiting_for_input", "completed"),
    ("waiting_for_input", "failed"),
    ("waiting_for_input", "cancelled"),
}


@pytest.mark.parametrize(("now", "then"), list(product(ConversationState, ConversationState)))
def test_a_conversation_goes_where_the_table_says_and_nowhere_else(
    now: ConversationState, then: ConversationState
) -> None:
    if (now.value, then.value) in ALLOWED:
        check_transition("c1", now, then)
    else:
        with pytest.raises(InvalidTransition, match=f"c1 is {now} and cannot become {then}"):
            check_transition("c1", now, then)


def test_what_is_over_stays_over() -> None:
    with pytest.raises(InvalidTransition, match="nothing: it has ended"):
        check_transition("c1", ConversationState.FAILED, ConversationState.STARTING)


NOBODY = AgentActivity(is_running=False, was_active_recently=False, was_started=False)


@pytest.mark.parametrize(
    ("phase", "token", "seen", "need"),
    [
        ("running", "t", AgentActivity(True, False, True), ResumeNeed(False, "agent_running")),
        ("waiting_for_input", "t", AgentActivity(False, True, True), ResumeNeed(False, "stale_execution")),
        ("waiting_for_input", "t", AgentActivity(False, False, True), ResumeNeed(True, "agent_not_running")),
        ("starting", "t", AgentActivity(False, False, True), ResumeNeed(True, "agent_not_running")),
        ("running", None, AgentActivity(False, False, True), ResumeNeed(True, "agent_not_running_fresh_start")),
        ("waiting_for_input", None, NOBODY, ResumeNeed(False, "not_started")),
        ("created", None, NOBODY, ResumeNeed(False, "not_started")),
        ("created", "t", NOBODY, ResumeNeed(False, "not_started")),
        *(
            (phase.value, "t", AgentActivity(False, False, True), ResumeNeed(False, f"conversation_{phase}"))
            for phase in sorted(ENDED_STATES)
        ),
    ],
)
def test_whether_it_must_be_resumed(phase: str, token: str | None, seen: AgentActivity, need: ResumeNeed) -> None:
    assert needs_resume(phase, token, seen) == need


YES, NO, UNPROVEN = Capability(True, True), Capability(False), Capability(True, None)
DISPROVED = Capability(True, False)


@pytest.mark.parametrize(
    ("token", "resume", "load", "alive", "history", "rungs"),
    [
        (None, YES, YES, False, False, "fresh"),
        (None, YES, YES, False, True, "history injection"),
        ("t", YES, YES, False, True, "session/resume, session/load, history injection"),
        ("t", UNPROVEN, NO, False, True, "session/resume, history injection"),
        ("t", DISPROVED, YES, False, True, "session/load, history injection"),
        ("t", DISPROVED, DISPROVED, False, True, "history injection"),
        ("t", NO, NO, False, False, "fresh"),
        ("t", YES, YES, True, True, "reattach, session/resume, session/load, history injection"),
        ("t", Capability(False, True), NO, False, False, "fresh"),
    ],
)
def test_the_ladder_has_the_rungs_that_can_be_trusted(
    token: str | None, resume: Capability, load: Capability, alive: bool, history: bool, rungs: str
) -> None:
    found = recovery_strategies(token, resume=resume, load=load, is_alive=alive, has_history=history)
    assert ", ".join(found) == rungs
    assert found[-1] is (RecoveryStrategy.HISTORY if history else RecoveryStrategy.FRESH), (
        "what was said is told, when there is something"
    )


def test_rewound_session_is_copied_before_the_history_is_told() -> None:
    found = recovery_strategies(None, resume=YES, load=YES, is_alive=False, has_history=True, can_fork=True)
    assert found == [RecoveryStrategy.FORK, RecoveryStrategy.HISTORY]


def test_each_rung_is_tried_once_and_the_last_twice() -> None:
    rungs = [RecoveryStrategy.RESUME, RecoveryStrategy.LOAD, RecoveryStrategy.HISTORY]
    tried: list[RecoveryStrategy] = []
    while (rung := next_strategy(rungs, tried)) is not None:
        tried.append(rung)
    assert tried == [*rungs, RecoveryStrategy.HISTORY]


@pytest.mark.parametrize(
    ("rung", "code", "rejected"),
    [
        (RecoveryStrategy.LOAD, -32002, True),
        (RecoveryStrategy.RESUME, -32602, True),
        (RecoveryStrategy.RESUME, -32603, True),
        (RecoveryStrategy.LOAD, 0, True),
        (RecoveryStrategy.LOAD, -32601, False),  # it cannot load at all: the session may be as it was
        (RecoveryStrategy.LOAD, -32000, False),  # it wants a login first
        (RecoveryStrategy.LOAD, SESSION_UNAVAILABLE_CODE, False),  # its disk is full
        (RecoveryStrategy.LOAD, None, False),
        (RecoveryStrategy.HISTORY, -32603, False),
    ],
)
def test_a_session_is_rejected_when_the_agent_says_so(rung: RecoveryStrategy, code: int | None, rejected: bool) -> None:
    assert is_rejection(rung, code) is rejected
