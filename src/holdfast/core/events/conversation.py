"""Dialogues with agents: their states, their turns, and every word and tool call in them."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import NOTHING, Event


class ConversationOpened(Event, frozen=True, kw_only=True):
    """`about` is what it is about when that is no task: a phase, or a question that is looked into."""

    type: ClassVar[str] = "conversation.opened"
    conversation: str
    agent: str | None = None
    role: str | None = None
    task: str | int | None = None
    about: str | None = None


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


class ConversationAttached(Event, frozen=True, kw_only=True):
    """An agent's process is there for it, come by this rung of the ladder. `notice` is for the person to read.

    `runtime` is what it runs in; `container` the id of its container, at the engine.
    """

    type: ClassVar[str] = "conversation.attached"
    conversation: str
    rung: str
    notice: str | None = None
    pid: int | None = None
    start_time: int | None = None
    boot_id: str | None = None
    program: str | None = None
    version: str | None = None
    runtime: str | None = None
    container: str | None = None


class ConversationDetached(Event, frozen=True, kw_only=True):
    """The agent's process is gone, or was sent away."""

    type: ClassVar[str] = "conversation.detached"
    conversation: str
    reason: str | None = None


class RungFailed(Event, frozen=True, kw_only=True):
    """A way back into the conversation that did not hold, and why; the next one is tried."""

    type: ClassVar[str] = "conversation.rung_failed"
    conversation: str
    rung: str
    reason: str | None = None


class ModeChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "conversation.mode_changed"
    conversation: str
    mode: str


class AgentPlanned(Event, frozen=True, kw_only=True):
    """The agent's own list of what it is about to do; each replaces the one before."""

    type: ClassVar[str] = "conversation.planned"
    conversation: str
    entries: msgspec.Raw = NOTHING


class AgentMisbehaved(Event, frozen=True, kw_only=True):
    """The agent did something that the protocol does not know; it was passed over."""

    type: ClassVar[str] = "conversation.misbehaved"
    conversation: str
    what: str
    detail: str | None = None
    times: int = 1


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would make of a file. `old` is None where the file is not there yet, or the agent does not say."""

    path: str
    old: str | None = None
    new: str = ""


class PermissionRequested(Event, frozen=True, kw_only=True):
    """The agent asks before it does something. The request outlives the agent, and can be answered meanwhile.

    `title` is the agent's own name for the call. What it will do is in `command`, `paths` and `diffs`, and in `input`
    as the tool gets it. `note` is what the agent shows where it tells no input; it is empty when that is nothing.
    """

    type: ClassVar[str] = "permission.requested"
    conversation: str
    request: str
    title: str
    kind: str | None = None
    call: str | None = None
    paths: list[str] = []
    options: msgspec.Raw = NOTHING
    fingerprint: str | None = None
    command: str | None = None
    diffs: list[FileDiff] = []
    input: msgspec.Raw = NOTHING
    note: str | None = None


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """`option` is the id of the chosen one; None when nobody chose. `by` is who did, or which rule.

    `message` is the inbox message of a person who answered; `reason` is why that person refused, for the agent.
    """

    type: ClassVar[str] = "permission.answered"
    request: str
    option: str | None = None
    by: str | None = None
    message: str | None = None
    reason: str | None = None


class ToolBlocked(Event, frozen=True, kw_only=True):
    """A hook or a rule refused a tool call before it was made. `input` is what the tool would have got."""

    type: ClassVar[str] = "tool.blocked"
    conversation: str
    tool: str
    reason: str | None = None
    command: str | None = None
    input: msgspec.Raw = NOTHING


class TurnStarted(Event, frozen=True, kw_only=True):
    """A prompt is about to be sent. `messages` are those of the inbox that it delivers.

    `notices` are the keys of what it says of the task that the agent cannot know, as that its files were lost.
    """

    type: ClassVar[str] = "turn.started"
    conversation: str
    turn: str
    messages: list[str] = []
    notices: list[str] = []


class TurnEnded(Event, frozen=True, kw_only=True):
    """`message_id` is that of the last message the agent sent: up to there its own session can be rewound."""

    type: ClassVar[str] = "turn.ended"
    conversation: str
    turn: str
    stop_reason: str | None = None
    message_id: str | None = None


class TurnWasEmpty(Event, frozen=True, kw_only=True):
    """A turn that ended without a word, a tool call or a report. `streak` counts such turns in a row, with this one."""

    type: ClassVar[str] = "turn.empty"
    conversation: str
    turn: str
    streak: int
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class TurnInterrupted(Event, frozen=True, kw_only=True):
    """`rebooted` when the machine went down with it: what was written and not synced by then is gone."""

    type: ClassVar[str] = "turn.interrupted"
    conversation: str
    turn: str
    reason: str | None = None
    rebooted: bool = False


class MessageRecorded(Event, frozen=True, kw_only=True):
    """Something said: `speaker` is user, agent, thought or system. `more` when it goes on in the next such event.

    `message_id` is the agent's own id of the message, of an agent that gives one.
    """

    type: ClassVar[str] = "message.recorded"
    conversation: str
    speaker: str
    text: str
    turn: str | None = None
    more: bool = False
    message_id: str | None = None


class ToolCalled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.called"
    conversation: str
    call: str
    tool: str
    turn: str | None = None
    input: msgspec.Raw = NOTHING
    kind: str | None = None
    locations: msgspec.Raw = NOTHING


class ToolDetailed(Event, frozen=True, kw_only=True):
    """What an agent told of a call only after it had announced it: its input, and the title and places that fit it."""

    type: ClassVar[str] = "tool.detailed"
    conversation: str
    call: str
    tool: str
    turn: str | None = None
    input: msgspec.Raw = NOTHING
    kind: str | None = None
    locations: msgspec.Raw = NOTHING


class ToolReturned(Event, frozen=True, kw_only=True):
    """`status` is completed, failed, or interrupted: a call in flight when the agent died never "completes"."""

    type: ClassVar[str] = "tool.returned"
    conversation: str
    call: str
    status: str = "completed"
    output: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING


FAMILY = (
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ConversationAttached,
    ConversationDetached,
    RungFailed,
    ModeChanged,
    AgentPlanned,
    AgentMisbehaved,
    PermissionRequested,
    PermissionAnswered,
    ToolBlocked,
    TurnStarted,
    TurnEnded,
    TurnWasEmpty,
    TurnInterrupted,
    MessageRecorded,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
)
