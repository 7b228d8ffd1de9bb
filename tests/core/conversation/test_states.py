"""States, needs and the ladder, as tables."""

from itertools import product

import pytest

from holdfast.core.conversation.states import (
    NOT_NOW,
    OVER,
    Ability,
    Need,
    Phase,
    Rung,
    Seen,
    WrongTransition,
    is_rejection,
    ladder,
    must_go,
    needs_resume,
    next_rung,
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


@pytest.mark.parametrize(("now", "then"), list(product(Phase, Phase)))
def test_a_conversation_goes_where_the_table_says_and_nowhere_else(now: Phase, then: Phase) -> None:
    if (now.value, then.value) in ALLOWED:
        must_go("c1", now, then)
    else:
        with pytest.raises(WrongTransition, match=f"c1 is {now} and cannot become {then}"):
            must_go("c1", now, then)


def test_what_is_over_stays_over() -> None:
    with pytest.raises(WrongTransition, match="nowhere: it is over"):
        must_go("c1", Phase.FAILED, Phase.STARTING)


NOBODY = Seen(running=False, recently=False, started=False)


@pytest.mark.parametrize(
    ("phase", "token", "seen", "need"),
    [
        ("running", "t", Seen(True, False, True), Need(False, "agent_running")),
        ("waiting_for_input", "t", Seen(False, True, True), Need(False, "stale_execution")),
        ("waiting_for_input", "t", Seen(False, False, True), Need(True, "agent_not_running")),
        ("starting", "t", Seen(False, False, True), Need(True, "agent_not_running")),
        ("running", None, Seen(False, False, True), Need(True, "agent_not_running_fresh_start")),
        ("waiting_for_input", None, NOBODY, Need(False, "not_started")),
        ("created", None, NOBODY, Need(False, "not_started")),
        ("created", "t", NOBODY, Need(False, "not_started")),
        *((phase.value, "t", Seen(False, False, True), Need(False, f"conversation_{phase}")) for phase in sorted(OVER)),
    ],
)
def test_whether_it_must_be_resumed(phase: str, token: str | None, seen: Seen, need: Need) -> None:
    assert needs_resume(phase, token, seen) == need


YES, NO, UNPROVEN = Ability(True, True), Ability(False), Ability(True, None)
DISPROVED = Ability(True, False)


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
        ("t", Ability(False, True), NO, False, False, "fresh"),
    ],
)
def test_the_ladder_has_the_rungs_that_can_be_trusted(
    token: str | None, resume: Ability, load: Ability, alive: bool, history: bool, rungs: str
) -> None:
    found = ladder(token, resume=resume, load=load, alive=alive, history=history)
    assert ", ".join(found) == rungs
    assert found[-1] is (Rung.INJECT if history else Rung.FRESH), "what was said is told, when there is something"


def test_each_rung_is_tried_once_and_the_last_twice() -> None:
    rungs = [Rung.RESUME, Rung.LOAD, Rung.INJECT]
    tried: list[Rung] = []
    while (rung := next_rung(rungs, tried)) is not None:
        tried.append(rung)
    assert tried == [*rungs, Rung.INJECT]


@pytest.mark.parametrize(
    ("rung", "code", "rejected"),
    [
        (Rung.LOAD, -32002, True),
        (Rung.RESUME, -32602, True),
        (Rung.RESUME, -32603, True),
        (Rung.LOAD, 0, True),
        (Rung.LOAD, -32601, False),  # it cannot load at all: the session may be as it was
        (Rung.LOAD, -32000, False),  # it wants a login first
        (Rung.LOAD, NOT_NOW, False),  # its disk is full
        (Rung.LOAD, None, False),
        (Rung.INJECT, -32603, False),
    ],
)
def test_a_session_is_rejected_when_the_agent_says_so(rung: Rung, code: int | None, rejected: bool) -> None:
    assert is_rejection(rung, code) is rejected
