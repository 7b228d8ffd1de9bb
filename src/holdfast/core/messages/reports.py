"""Reports of agents, as messages in the run's inbox."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.messages.schema import RefusedReport, Report, decode_body, try_decode_body
from holdfast.core.messages.signals import SubmitCase, SubmitDone
from holdfast.core.state import RunState
from holdfast.core.text.cut import cut
from holdfast.leaf.errors import BadInput

MAX_RAW_CHARS = 8_000  # kept of an invalid call

_CASE_TOOLS = (SubmitCase.tool, SubmitDone.tool)


def attribute_report(conversation_id: str, kind: str, body: msgspec.Raw) -> Report | RefusedReport:
    """A report, attributed to this conversation whatever it says itself; `BadInput` for other kinds of messages."""
    match decode_body(kind, body):
        case RefusedReport() as refused:
            raw, error = cut(refused.raw, MAX_RAW_CHARS), cut(refused.error, MAX_RAW_CHARS)
            return msgspec.structs.replace(refused, raw=raw, error=error, conversation=conversation_id)
        case Report() as report:
            return msgspec.structs.replace(report, conversation=conversation_id)
    raise BadInput(f"a message of kind {kind!r} is not a report")


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call as text that can always be stored."""
    try:
        return cut(json.dumps(arguments, ensure_ascii=not _is_utf8(arguments), default=str), MAX_RAW_CHARS)
    except (RecursionError, ValueError):
        return "(arguments that cannot be written as JSON)"


def _is_utf8(arguments: Mapping[str, Any]) -> bool:
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError):
        return False
    return True


def has_pending_case(state: RunState, conversation_id: str | None) -> bool:
    """Whether a case of this worker was received and not handled yet."""
    waiting = (try_decode_body(message.kind, message.body) for message in state.messages.values())
    cases = (body for body in waiting if isinstance(body, Report) and body.tool in _CASE_TOOLS)
    return any(case.conversation == conversation_id for case in cases)
