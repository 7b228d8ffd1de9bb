"""What an agent reports, as a message in the run's inbox."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.messages.signals import SubmitCase, SubmitDone
from holdfast.core.state import OpenMessage, RunState
from holdfast.core.text.cut import cut
from holdfast.leaf.errors import BadInput

SIGNAL = "signal."  # what the kind of such a message begins with

TOOLS_LISTED = b'{"tools":"listed"}'  # a line in a file of reports that is none: its agent has the tools now
REFUSED = "refused_report"  # the kind of a message that tells of a report which could not be taken
MOST_RAW = 8_000  # characters of a call that are kept of it

_CASES = (f"{SIGNAL}{SubmitCase.tool}", f"{SIGNAL}{SubmitDone.tool}")


class Report(msgspec.Struct, frozen=True):
    role: str
    signal: dict[str, object]
    conversation: str | None = None


class RefusedReport(msgspec.Struct, frozen=True):
    """A report that was answered with an error. `raw` is what the agent called the tool with, as far as it is kept."""

    role: str
    tool: str
    error: str
    raw: str
    conversation: str | None = None


def report_of(conversation: str, kind: str, body: msgspec.Raw) -> msgspec.Raw:
    """The body of a report as this conversation's, whomever it names; `BadInput` when it is no report."""
    report: Report | RefusedReport
    if kind == REFUSED:
        refused = msgspec.json.decode(body, type=RefusedReport)
        report = msgspec.structs.replace(refused, raw=cut(refused.raw, MOST_RAW), error=cut(refused.error, MOST_RAW))
    elif kind.startswith(SIGNAL):
        report = msgspec.json.decode(body, type=Report)
    else:
        raise BadInput(f"a message of kind {kind!r} is no report")
    return msgspec.Raw(msgspec.json.encode(msgspec.structs.replace(report, conversation=conversation)))


def as_raw(arguments: Mapping[str, Any]) -> str:
    """A call's arguments as text that can be stored, whatever is in them."""
    try:
        return cut(json.dumps(arguments, ensure_ascii=not _is_utf8(arguments), default=str), MOST_RAW)
    except (RecursionError, ValueError):
        return "(arguments that cannot be written as JSON)"


def _is_utf8(arguments: Mapping[str, Any]) -> bool:
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, RecursionError, OverflowError, TypeError):
        return False
    return True


def is_reported(state: RunState, worker: str | None) -> bool:
    """A case of this worker came in, and was not acted on yet."""
    reports = (message for message in state.messages.values() if message.kind in _CASES)
    return any(_conversation_of(report) == worker for report in reports)


def _conversation_of(message: OpenMessage) -> str | None:
    try:
        return msgspec.json.decode(message.body, type=Report).conversation
    except msgspec.MsgspecError:
        return None
