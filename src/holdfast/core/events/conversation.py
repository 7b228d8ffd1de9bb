"""Conversations with agents: their states, turns, messages and tool calls."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import JSON_NULL, Event


class ImportOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where an imported entry is in the other tool's records: the file, the byte in it, and the time of the entry."""

    source: str
    position: int
    at: str | None = None


class ConversationOpened(Event, frozen=True, kw_only=True):
    """`about` is the subject when it is not a task: a phase or a research question.

    `after` is the conversation of another agent that it continues: its history goes with the first prompt.
    """

    type: ClassVar[str] = "conversation.opened"
    conversation: str
    agent: str | None = None
    role: str | None = None
    task: str | int | None = None
    about: str | None = None
    after: str | None = None


class ConversationStateChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "conversation.state_changed"
    conversation: str
    state: str
    reason: str | None = None


class ConversationTokenStored(Event, frozen=True, kw_only=True):
    """The agent's own session id, used to resume it; None when the agent rejected it."""

    type: ClassVar[str] = "conversation.token_stored"
    conversation: str
    token: str | None


class ConversationAttached(Event, frozen=True, kw_only=True):
    """An agent process serves the conversation. `rung` is the recovery strategy that worked; `notice` is for people.

    `runtime` is where it runs; `container` is the id of its container in the engine. `model` is the agent's current
    model, if it tells.
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
    model: str | None = None


class ConversationDetached(Event, frozen=True, kw_only=True):
    """The agent's process died or was stopped."""

    type: ClassVar[str] = "conversation.detached"
    conversation: str
    reason: str | None = None


START_STEP = "start"  # not a strategy: starting the agent, before it can be asked for a session


class RecoveryStrategyFailed(Event, frozen=True, kw_only=True):
    """A recovery strategy (`rung`) failed, and why; the next one is tried."""

    type: ClassVar[str] = "conversation.rung_failed"
    conversation: str
    rung: str
    reason: str | None = None


class ModeChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "conversation.mode_changed"
    conversation: str
    mode: str


class CommandsListed(Event, frozen=True, kw_only=True):
    """The agent's own slash commands, by name without the slash: what each does. Each list replaces the one before."""

    type: ClassVar[str] = "conversation.commands_listed"
    conversation: str
    commands: dict[str, str] = {}


class SentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that went with a prompt. `form` is how the agent got it: image, audio, embedded, link, or missing.

    `id` is the SHA-256 of an attachment in the run's folder; None for a file of the worktree, named with `@`.
    """

    name: str
    media_type: str
    size: int
    form: str
    id: str | None = None


class FilesSent(Event, frozen=True, kw_only=True):
    """The files that go with the prompt of a turn: attachments, and files that its text names."""

    type: ClassVar[str] = "prompt.files_sent"
    conversation: str
    turn: str
    sent: list[SentFile] = []


class AgentPlanned(Event, frozen=True, kw_only=True):
    """The agent's own list of its next steps; each replaces the one before."""

    type: ClassVar[str] = "conversation.planned"
    conversation: str
    entries: msgspec.Raw = JSON_NULL


class AgentMisbehaved(Event, frozen=True, kw_only=True):
    """The agent broke the protocol; the message was ignored."""

    type: ClassVar[str] = "conversation.misbehaved"
    conversation: str
    what: str
    detail: str | None = None
    times: int = 1


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a file by a tool call. `old` is None for a new file, or when the agent does not say."""

    path: str
    old: str | None = None
    new: str = ""


class PermissionRequested(Event, frozen=True, kw_only=True):
    """The agent asks for permission. The request outlives the agent and can be answered after its death.

    `title` is the agent's own name for the call. What it will do is in `command`, `paths` and `diffs`; `input` is the
    input of the tool. `note` is the text that the agent shows instead of an input; it may be empty.
    """

    type: ClassVar[str] = "permission.requested"
    conversation: str
    request: str
    title: str
    kind: str | None = None
    call: str | None = None
    paths: list[str] = []
    options: msgspec.Raw = JSON_NULL
    fingerprint: str | None = None
    command: str | None = None
    diffs: list[FileDiff] = []
    input: msgspec.Raw = JSON_NULL
    note: str | None = None


class PermissionAnswered(Event, frozen=True, kw_only=True):
    """`option` is the id of the chosen option; None when none was chosen. `by` is the person or the rule that decided.

    `message` is the inbox message with a person's answer; `reason` is why the person denied it, for the agent.
    """

    type: ClassVar[str] = "permission.answered"
    request: str
    option: str | None = None
    by: str | None = None
    message: str | None = None
    reason: str | None = None


class ToolBlocked(Event, frozen=True, kw_only=True):
    """A hook or a rule blocked a tool call before it ran. `input` is the input of the tool."""

    type: ClassVar[str] = "tool.blocked"
    conversation: str
    tool: str
    reason: str | None = None
    command: str | None = None
    input: msgspec.Raw = JSON_NULL


class TurnStarted(Event, frozen=True, kw_only=True):
    """A prompt is about to be sent. `messages` are the inbox messages that it delivers.

    `notices` are the keys of notices in it: facts that the agent cannot know, such as lost files.
    """

    type: ClassVar[str] = "turn.started"
    conversation: str
    turn: str
    messages: list[str] = []
    notices: list[str] = []


class TurnEnded(Event, frozen=True, kw_only=True):
    """`message_id` is the agent's id of its last message: its own session can be rewound to it.

    `by` is the person who cancelled the turn.
    """

    type: ClassVar[str] = "turn.ended"
    conversation: str
    turn: str
    stop_reason: str | None = None
    message_id: str | None = None
    by: str | None = None


class TurnWasEmpty(Event, frozen=True, kw_only=True):
    """A turn without a message, a tool call or a report. `streak` counts such turns in a row, including this one."""

    type: ClassVar[str] = "turn.empty"
    conversation: str
    turn: str
    streak: int
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class TurnInterrupted(Event, frozen=True, kw_only=True):
    """`rebooted`: the machine went down during the turn; writes that were not synced are lost."""

    type: ClassVar[str] = "turn.interrupted"
    conversation: str
    turn: str
    reason: str | None = None
    rebooted: bool = False


class MessageRecorded(Event, frozen=True, kw_only=True):
    """A message: `speaker` is user, agent, thought or system. `more`: it continues in the next such event.

    `message_id` is the agent's own id of the message, if it has one. `imported` is only there in what another tool
    recorded (`holdfast adopt`).
    """

    type: ClassVar[str] = "message.recorded"
    conversation: str
    speaker: str
    text: str
    turn: str | None = None
    more: bool = False
    message_id: str | None = None
    imported: ImportOrigin | msgspec.UnsetType = msgspec.UNSET


class ToolCalled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "tool.called"
    conversation: str
    call: str
    tool: str
    turn: str | None = None
    input: msgspec.Raw = JSON_NULL
    kind: str | None = None
    locations: msgspec.Raw = JSON_NULL
    imported: ImportOrigin | msgspec.UnsetType = msgspec.UNSET


class ToolDetailed(Event, frozen=True, kw_only=True):
    """Details of a call that the agent reported after it announced the call: its input, title and locations."""

    type: ClassVar[str] = "tool.detailed"
    conversation: str
    call: str
    tool: str
    turn: str | None = None
    input: msgspec.Raw = JSON_NULL
    kind: str | None = None
    locations: msgspec.Raw = JSON_NULL


class ToolReturned(Event, frozen=True, kw_only=True):
    """`status` is completed, failed or interrupted: a call in progress when the agent died never "completes"."""

    type: ClassVar[str] = "tool.returned"
    conversation: str
    call: str
    status: str = "completed"
    output: msgspec.Raw = JSON_NULL
    content: msgspec.Raw = JSON_NULL
    imported: ImportOrigin | msgspec.UnsetType = msgspec.UNSET


FAMILY = (
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ConversationAttached,
    ConversationDetached,
    RecoveryStrategyFailed,
    ModeChanged,
    CommandsListed,
    AgentPlanned,
    AgentMisbehaved,
    PermissionRequested,
    PermissionAnswered,
    ToolBlocked,
    TurnStarted,
    FilesSent,
    TurnEnded,
    TurnWasEmpty,
    TurnInterrupted,
    MessageRecorded,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
)
