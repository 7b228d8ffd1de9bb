"""What a dead session and a failed recovery strategy mean for a conversation."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.conversation.states import (
    INTERRUPTED,
    NATIVE_STRATEGIES,
    SESSION_UNAVAILABLE_CODE,
    ConversationState,
    RecoveryStrategy,
    is_rejection,
)
from holdfast.core.decide.attribution import conversation_agent_name
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentDied
from holdfast.core.events.conversation import (
    ConversationDetached,
    ConversationStateChanged,
    ToolReturned,
    TurnInterrupted,
)
from holdfast.core.state import Conversation

PROGRESS_TEXT = {True: "the agent had begun to answer", False: "the agent had answered nothing"}
_SESSION_DIED = "the session died"
_UNKNOWN_PROGRESS = "whether the agent got the prompt is unknown"
_BUSY_STATES = (ConversationState.RUNNING, ConversationState.STARTING)


class CauseOfDeath(StrEnum):
    """Why an earlier session left its turns open."""

    SESSION = "the session died"
    REBOOT = "the machine went down"
    MOVED = "the machine that had the run was lost, and another one continues it"


def interruption_events(
    conversation_id: str, conversation: Conversation, *, was_heard: bool, cause: CauseOfDeath
) -> list[Event]:
    """What an earlier session left open in a conversation when it died: its turn, the turn's calls, its agent.

    `was_heard`: the agent did something in the turn.
    """
    events: list[Event] = []
    if conversation.turn is not None:
        events += [
            ToolReturned(conversation=conversation_id, call=call, status=INTERRUPTED)
            for call in conversation.turn.calls
        ]
        rebooted = cause is CauseOfDeath.REBOOT
        reason = f"{cause}; {PROGRESS_TEXT[True] if was_heard else _UNKNOWN_PROGRESS}"
        turn_id = conversation.turn.turn
        events.append(TurnInterrupted(conversation=conversation_id, turn=turn_id, reason=reason, rebooted=rebooted))
    if conversation.pid is not None:
        name = conversation_agent_name(conversation)
        events.append(ConversationDetached(conversation=conversation_id, reason=_SESSION_DIED))
        events.append(AgentDied(name=name, reason="the session died, and its agents with it"))
    if conversation.state in _BUSY_STATES:
        waiting = ConversationState.WAITING
        events.append(ConversationStateChanged(conversation=conversation_id, state=waiting, reason=_SESSION_DIED))
    return events


class AfterFailure(NamedTuple):
    """What follows when a recovery strategy failed."""

    session_lost: bool  # the agent does not know its own session: it is not asked for it again
    gives_up: bool
    restarts_agent: bool  # before the next strategy


def after_failure(
    failed: Sequence[tuple[RecoveryStrategy, int | None]], following: RecoveryStrategy | None
) -> AfterFailure:
    """`failed` are the strategies so far, each with the code by which the agent refused; None: it died or hung."""
    strategy, code = failed[-1]
    leaves_session = following not in NATIVE_STRATEGIES
    rejected = any(is_rejection(*earlier) for earlier in failed)
    withheld = strategy in NATIVE_STRATEGIES and code == SESSION_UNAVAILABLE_CODE
    return AfterFailure(
        session_lost=rejected and leaves_session,
        gives_up=following is None or (withheld and leaves_session),  # a new session would replace its own for good
        restarts_agent=code is None or following in [earlier for earlier, _ in failed],
    )
