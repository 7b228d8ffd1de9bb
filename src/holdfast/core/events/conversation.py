"""Dialogues with agents: their states, their turns, and every word and tool call in them."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import NOTHING, Event


class ConversationOpened(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "conversation.opened"
    conversation: str
    agent: str | None = None
    role: str | None = None
    task: str | int | None = None


class ConversationStateChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "conversation.state_changed"
    conversation: str
    state: str
    reason: str | None = None


class ConversationTokenStored(Event, frozen=True, kw_only=True):
    """The agent's own session id, by which it can be asked to go on; None when it was rejected."""

    type: ClassVar[str] = "conversation.token_stored"
    conversation: str
    token: str | None


class TurnStarted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.started"
    conversation: str
    turn: str


class TurnEnded(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.ended"
    conversation: str
    turn: str
    stop_reason: str | None = None


class TurnInterrupted(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "turn.interrupted"
    conversation: str
    turn: str
    reason: str | None = None


class MessageRecorded(Event, frozen=True, kw_only=True):
    """Something said: `speaker` is user, agent, thought or system."""

    type: ClassVar[str] = "message.recorded"
    conversation: str
    speaker: str
    text: str
    turn: str | None = None


class ToolCalled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.called"
    conversation: str
    call: str
    tool: str
    turn: str | None = None
    input: msgspec.Raw = NOTHING


class ToolReturned(Event, frozen=True, kw_only=True):
    """`status` is completed, failed, or interrupted: a call in flight when the agent died never "completes"."""

    type: ClassVar[str] = "tool.returned"
    conversation: str
    call: str
    status: str = "completed"
    output: msgspec.Raw = NOTHING


FAMILY = (
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    TurnStarted,
    TurnEnded,
    TurnInterrupted,
    MessageRecorded,
    ToolCalled,
    ToolReturned,
)
