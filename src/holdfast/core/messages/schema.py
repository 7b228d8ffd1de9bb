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
from holdfast.core.log.codec import DECODE_ERRORS
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


PROMPT_KINDS = (MessageKind.USER, MessageKind.RESEARCH, MessageKind.DENIAL)  # delivered with a prompt
REPLY_KINDS = (MessageKind.RESEARCH, MessageKind.DENIAL)  # replies to an agent's own request


class PromptMessage(msgspec.Struct, frozen=True):
    """Text delivered with a prompt: to the agent of a task or a phase, or to the next agent that gets a prompt."""

    text: str
    task: str | None = None


class UserMessage(PromptMessage, frozen=True):
    kind: ClassVar = MessageKind.USER


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


Body = UserMessage | ResearchReply | DenialReply | ChangeRequest | StopRequest | UserAnswer | RefusedReport | Report

_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    body.kind: msgspec.json.Decoder(body)
    for body in (UserMessage, ResearchReply, DenialReply, ChangeRequest, StopRequest, UserAnswer, RefusedReport)
}
_REPORT_DECODER = msgspec.json.Decoder(_ReportBody)


class _AddressedBody(msgspec.Struct):
    task: str | None = None


def encode_body(body: Body) -> msgspec.Raw:
    wire: object = body
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


def addressee(body: msgspec.Raw) -> str | None:
    """The task or phase that a message names, whatever its kind."""
    try:
        return msgspec.json.decode(body, type=_AddressedBody).task
    except msgspec.MsgspecError:
        return None


def message_text(body: str | bytes) -> str:
    """The text of a person's message, even of one that cannot be delivered."""
    try:
        found: Any = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return ""
    return str(found.get("text", "")) if isinstance(found, dict) else str(found)
