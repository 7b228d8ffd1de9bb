"""What follows from a dead session and from a failed recovery strategy, as tables."""

import pytest

from holdfast.core.conversation.states import (
    SESSION_UNAVAILABLE_CODE,
    SESSION_UNVERIFIED_CODE,
    RecoveryStrategy,
)
from holdfast.core.decide.interrupted import CauseOfDeath, after_failure, interruption_events
from holdfast.core.events import Event
from holdfast.core.state import Conversation, OpenTurn

TURN = OpenTurn("t", calls={"call-1": "Write", "call-2": "Bash"})

#  what a conversation was in the middle of → what is recorded
INTERRUPTED: dict[str, tuple[Conversation, list[str]]] = {
    "nothing": (Conversation(state="waiting_for_input"), []),
    "it is over": (Conversation(state="completed"), []),
    "an agent that waited": (
        Conversation(state="waiting_for_input", pid=7),
        ["conversation.detached", "agent.died"],
    ),
    "an agent that was being started": (Conversation(state="starting"), ["conversation.state_changed"]),
    "a turn": (
        Conversation(state="running", pid=7, turn=OpenTurn("t")),
        ["turn.interrupted", "conversation.detached", "agent.died", "conversation.state_changed"],
    ),
    "a turn with calls": (
        Conversation(state="running", pid=7, turn=TURN),
        ["tool.returned"] * 2
        + ["turn.interrupted", "conversation.detached", "agent.died", "conversation.state_changed"],
    ),
    "a turn whose agent was gone": (Conversation(state="waiting_for_input", turn=OpenTurn("t")), ["turn.interrupted"]),
}


def recorded(
    conversation: Conversation, *, was_heard: bool = False, cause: CauseOfDeath = CauseOfDeath.SESSION
) -> list[Event]:
    return interruption_events("c", conversation, was_heard=was_heard, cause=cause)


@pytest.mark.parametrize("what", INTERRUPTED)
def test_what_a_dead_session_left_open(what: str) -> None:
    conversation, expected = INTERRUPTED[what]
    assert [event.type for event in recorded(conversation)] == expected


@pytest.mark.parametrize(
    ("was_heard", "cause", "reason"),
    [
        (False, CauseOfDeath.SESSION, "the session died; whether the agent got the prompt is unknown"),
        (True, CauseOfDeath.SESSION, "the session died; the agent had begun to answer"),
        (True, CauseOfDeath.REBOOT, "the machine went down; the agent had begun to answer"),
        (
            True,
            CauseOfDeath.MOVED,
            "the machine that had the run was lost, and another one continues it; the agent had begun to answer",
        ),
    ],
)
def test_reason_says_how_far_the_agent_came(was_heard: bool, cause: CauseOfDeath, reason: str) -> None:
    (event,) = recorded(Conversation(turn=OpenTurn("t")), was_heard=was_heard, cause=cause)
    assert (getattr(event, "reason", None), getattr(event, "rebooted", None)) == (
        reason,
        cause is CauseOfDeath.REBOOT,
    )


RESUME, LOAD, HISTORY, FRESH = (
    RecoveryStrategy.RESUME,
    RecoveryStrategy.LOAD,
    RecoveryStrategy.HISTORY,
    RecoveryStrategy.FRESH,
)
UNKNOWN_SESSION, NO_METHOD = -32602, -32601
DIED = None

#  strategies that failed, each with its code; the next → what follows
FAILURES: dict[str, tuple[list[tuple[RecoveryStrategy, int | None]], RecoveryStrategy | None, str]] = {
    "died, another native one is left": ([(RESUME, DIED)], LOAD, "new agent"),
    "died, the history is left": ([(LOAD, DIED)], HISTORY, "new agent"),
    "unknown session, another is left": ([(RESUME, UNKNOWN_SESSION)], LOAD, "same agent"),
    "unknown session, the history is left": ([(LOAD, UNKNOWN_SESSION)], HISTORY, "session lost, same agent"),
    "unknown session before, then it died": (
        [(RESUME, UNKNOWN_SESSION), (LOAD, DIED)],
        HISTORY,
        "session lost, new agent",
    ),
    "no such method": ([(RESUME, NO_METHOD)], HISTORY, "same agent"),
    "the session cannot be had now": ([(LOAD, SESSION_UNAVAILABLE_CODE)], HISTORY, "give up"),
    "it cannot be had now, another is left": ([(RESUME, SESSION_UNAVAILABLE_CODE)], LOAD, "same agent"),
    "nothing shows that it is the session": ([(LOAD, SESSION_UNVERIFIED_CODE)], HISTORY, "same agent"),
    "a fresh start failed once": ([(FRESH, UNKNOWN_SESSION)], FRESH, "new agent"),
    "a fresh start failed twice": ([(FRESH, DIED), (FRESH, DIED)], None, "give up"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_what_follows_a_failed_strategy(what: str) -> None:
    failed, following, expected = FAILURES[what]
    after = after_failure(failed, following)
    then = "give up" if after.gives_up else "new agent" if after.restarts_agent else "same agent"
    assert ("session lost, " if after.session_lost else "") + then == expected
