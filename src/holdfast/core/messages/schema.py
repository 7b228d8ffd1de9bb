"""Every message of a run: its kinds, the body of each, and the one place where they are encoded and decoded.

A message is a line {"id", "kind", "sender", "body"} in the inbox; `inbox.consumed` carries the same kind and body into
the log. The kind determines the struct of the body. Senders build the struct; handlers decode it once and match on its
type. Lines of older versions must stay readable: fields are only added, with a default.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events.plan import ProposedTask
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.messages.attachments import Attachment
from holdfast.leaf.errors import BadInput

_REPORT_PREFIX = "signal."  # followed by the agent's tool


class MessageKind(StrEnum):
    """All kinds except reports, whose kind names the tool."""

    USER = "user"
    CHANGE = "change"
    STOP = "stop"
    ANSWER = "answer"
    REFUSED_REPORT = "refused_report"
    RESEARCH = "research"
    DENIAL = "denial"
    # of a chat
    ACCEPT = "accept"
    CANCEL_TURN = "cancel_turn"
    SET_OPTION = "set_option"
    ADD_CONVERSATION = "add_conversation"
    RESUME_CONVERSATION = "resume_conversation"
    EDIT_MESSAGE = "edit_message"
    DELETE_MESSAGE = "delete_message"
    REVOKE_RULE = "revoke_rule"
    EDIT_PLAN = "edit_plan"


PROMPT_KINDS = (MessageKind.USER, MessageKind.RESEARCH, MessageKind.DENIAL)  # delivered with a prompt
REPLY_KINDS = (MessageKind.RESEARCH, MessageKind.DENIAL)  # replies to an agent's own request
CONVERSATION_KINDS = (  # may name the one conversation that they are for
    MessageKind.USER,
    MessageKind.ACCEPT,
    MessageKind.ADD_CONVERSATION,
    MessageKind.RESUME_CONVERSATION,
)
EDITABLE_KINDS = (MessageKind.USER, MessageKind.ADD_CONVERSATION)  # a person wrote their text


class PromptMessage(msgspec.Struct, frozen=True):
    """Text delivered with a prompt: to the agent of a task or a phase, or to the next agent that gets a prompt."""

    text: str
    task: str | None = None


class UserMessage(PromptMessage, frozen=True):
    """`conversation`: only for this conversation of a chat. `attachments` are in the run's folder already."""

    kind: ClassVar = MessageKind.USER
    conversation: str | None = None
    attachments: tuple[Attachment, ...] = ()


class ResearchReply(PromptMessage, frozen=True, omit_defaults=True):
    """The answer for the agent that requested research."""

    kind: ClassVar = MessageKind.RESEARCH


class DenialReply(PromptMessage, frozen=True, omit_defaults=True):
    """Why a permission request was denied. The protocol has no field for it."""

    kind: ClassVar = MessageKind.DENIAL


class ChangeRequest(msgspec.Struct, frozen=True):
    """A change that a person wants in the next plan."""

    kind: ClassVar = MessageKind.CHANGE
    text: str
    task: str | None = None


class StopRequest(msgspec.Struct, frozen=True):
    """For the session that owned the run when it was sent. A later session ignores it."""

    kind: ClassVar = MessageKind.STOP
    epoch: int
    reason: str = EndReason.STOPPED


class UserAnswer(msgspec.Struct, frozen=True):
    """The answer to a permission request, or to a phase that asks for approval.

    Without an `option`, the first that allows or rejects is used. `changes` must be made before a phase is approved.
    `reason` says why a request or a phase is denied.
    """

    kind: ClassVar = MessageKind.ANSWER
    request: str
    allow: bool
    option: str | None = None
    changes: str | None = msgspec.field(default=None, name="words")
    reason: str | None = None
    at: str | None = None
    token: str | None = None  # makes otherwise equal answers different
    always: bool = False  # the same call is allowed from now on, in this run


class AcceptRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Accept the work of a conversation or task of a chat: it is checked, committed and merged into the run's branch.

    `finish`: the chat is over after that.
    """

    kind: ClassVar = MessageKind.ACCEPT
    task: str | None = None
    conversation: str | None = None
    finish: bool = False


class CancelTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Cancel the turn in progress; with a `turn`, only that one."""

    kind: ClassVar = MessageKind.CANCEL_TURN
    conversation: str
    turn: str | None = None


class SetOption(msgspec.Struct, frozen=True, omit_defaults=True):
    """Choose the `mode`, the `model` or another option of a conversation's agent. None: the agent's own choice."""

    kind: ClassVar = MessageKind.SET_OPTION
    conversation: str
    option: str
    value: str | None = None


class AddConversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Open another conversation in a chat, and send `text` in it. The sender chooses its id.

    It shares the worktree of `task`, or gets a worktree of its own.
    """

    kind: ClassVar = MessageKind.ADD_CONVERSATION
    conversation: str
    agent: str
    text: str
    task: str | None = None
    own_worktree: bool = False


class ResumeConversation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Start the agent of a conversation without a prompt."""

    kind: ClassVar = MessageKind.RESUME_CONVERSATION
    conversation: str


class EditMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replace the text of a message that is not delivered yet."""

    kind: ClassVar = MessageKind.EDIT_MESSAGE
    message: str
    text: str


class DeleteMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Take back a message that is not delivered yet."""

    kind: ClassVar = MessageKind.DELETE_MESSAGE
    message: str


class RevokeRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask again for what a person had allowed for the whole run."""

    kind: ClassVar = MessageKind.REVOKE_RULE
    rule: str


class EditPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replace the plan of an interview."""

    kind: ClassVar = MessageKind.EDIT_PLAN
    overview: str
    tasks: list[ProposedTask]
    seeds: list[str] = []


class RefusedReport(msgspec.Struct, frozen=True):
    """A report that was answered with an error. `raw` are the arguments of the call, cut when long."""

    kind: ClassVar = MessageKind.REFUSED_REPORT
    role: str
    tool: str
    error: str
    raw: str
    conversation: str | None = None


class _ReportBody(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    conversation: str | None = None
    signal: dict[str, Any]


class Report(msgspec.Struct, frozen=True):
    """A report that an agent sent with a tool. `signals.read_signal` checks its arguments."""

    tool: str
    role: str
    arguments: Mapping[str, Any]
    conversation: str | None = None

    @property
    def kind(self) -> str:
        return f"{_REPORT_PREFIX}{self.tool}"


ChatCommand = (
    AcceptRequest
    | CancelTurn
    | SetOption
    | AddConversation
    | ResumeConversation
    | EditMessage
    | DeleteMessage
    | RevokeRule
    | EditPlan
)
Body = (
    UserMessage
    | ResearchReply
    | DenialReply
    | ChangeRequest
    | StopRequest
    | UserAnswer
    | RefusedReport
    | Report
    | ChatCommand
)

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    body.kind: msgspec.json.Decoder(body)
    for body in (
        UserMessage,
        ResearchReply,
        DenialReply,
        ChangeRequest,
        StopRequest,
        UserAnswer,
        RefusedReport,
        AcceptRequest,
        CancelTurn,
        SetOption,
        AddConversation,
        ResumeConversation,
        EditMessage,
        DeleteMessage,
        RevokeRule,
        EditPlan,
    )
}
# Fields that older versions do not write; without a value we do not write them either.
_LATER_FIELDS: dict[type[Any], tuple[str, ...]] = {
    UserMessage: ("conversation", "attachments"),
    UserAnswer: ("always",),
}
_REPORT_DECODER = msgspec.json.Decoder(_ReportBody)


class Address(msgspec.Struct, frozen=True):
    task: str | None = None
    conversation: str | None = None


_NO_ADDRESS = Address()


def encode_body(body: Body) -> msgspec.Raw:
    wire: object = body
    unused = [name for name in _LATER_FIELDS.get(type(body), ()) if not getattr(body, name)]
    if unused:
        wire = {name: value for name, value in msgspec.to_builtins(body).items() if name not in unused}
    if isinstance(body, Report):
        wire = _ReportBody(role=body.role, conversation=body.conversation, signal=dict(body.arguments))
    return msgspec.Raw(msgspec.json.encode(wire))


def decode_body(kind: str, body: msgspec.Raw | bytes | str) -> Body:
    """The decoded body. Raises one of `DECODE_ERRORS`, or `BadInput` for an unknown kind."""
    if is_report(kind):
        report = _REPORT_DECODER.decode(body)
        return Report(kind.removeprefix(_REPORT_PREFIX), report.role, report.signal, report.conversation)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise BadInput("nobody here knows what it means")
    found: Body = decoder.decode(body)
    return found


def try_decode_body(kind: str, body: msgspec.Raw | bytes | str) -> Body | None:
    """The decoded body; None when it is invalid, because any program may write to an inbox."""
    try:
        return decode_body(kind, body)
    except (*DECODE_ERRORS, BadInput):
        return None


def is_report(kind: str) -> bool:
    return kind.startswith(_REPORT_PREFIX)


def addressee(body: msgspec.Raw) -> Address:
    """The task or phase, and the conversation, that a message names, whatever its kind."""
    try:
        return msgspec.json.decode(body, type=Address)
    except msgspec.MsgspecError:
        return _NO_ADDRESS


def message_attachments(body: str | bytes) -> tuple[Attachment, ...]:
    """The attachments of a message, as far as they can be read."""
    try:
        return msgspec.json.decode(body, type=_Attached).attachments
    except DECODE_ERRORS:
        return ()


class _Attached(msgspec.Struct):
    attachments: tuple[Attachment, ...] = ()


def message_text(body: str | bytes) -> str:
    """The text of a person's message, even of one that cannot be delivered."""
    try:
        found: Any = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return ""
    return str(found.get("text", "")) if isinstance(found, dict) else str(found)
