"""A turn that was interrupted, and what the log knows of each of its tool calls."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.messages.signals import ROLES

_TOOLS = sorted({kind.tool for kinds in ROLES.values() for kind in kinds}, key=len, reverse=True)
_CALL = re.compile(rf"(?<![a-z0-9])({'|'.join(_TOOLS)})(?![a-z0-9_])")
_BESIDE = frozenset({"mcp", "holdfast", "tool", "server", "call", "calling", "use", "using"})


class CallOutcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    RECEIVED = "received"  # a report to Holdfast that arrived, though its call never returned
    NOT_RECEIVED = "not received"  # a report to Holdfast that never arrived
    UNKNOWN = "unknown"  # it never returned, and may have had its effect


class RecordedCall(NamedTuple):
    """A tool call as the log has it. `status` is None when it never returned."""

    tool: str
    status: str | None = None
    result: str = ""


class ReceivedReport(NamedTuple):
    """What Holdfast received from the agent by one of its own tools; `about` names it among others of its kind."""

    tool: str
    about: str = ""


class KnownCall(NamedTuple):
    tool: str
    outcome: CallOutcome
    result: str = ""


class InterruptedTurn(NamedTuple):
    """The request that was not answered, and what came of it so far, over all turns that continued it.

    `reports` are those that arrived without a call that the agent showed.
    `later_messages` are messages of the inbox that went into continuing prompts: the request does not have them.
    `notices` are those that the request has.
    """

    request: str
    calls: tuple[KnownCall, ...] = ()
    reports: tuple[ReceivedReport, ...] = ()
    later_messages: frozenset[str] = frozenset()
    notices: frozenset[str] = frozenset()
    rebooted: bool = False


class Since(NamedTuple):
    """What an agent is to be told that it cannot know: messages and notices, as text, by their keys."""

    messages: Mapping[str, str] = {}
    notices: Mapping[str, str] = {}


NOTHING_SINCE = Since()


def reporting_tool(title: str) -> str | None:
    """The tool of Holdfast's that a recorded call is of, by its title, however the agent's program writes it.

    A title that says anything else beside, as a shell command that mentions the tool does, is not such a call. Nothing
    is permitted by this: for that see `core.own_tools`.
    """
    found = _CALL.search(title.casefold())
    if found is None:
        return None
    rest = f"{title[: found.start()]} {title[found.end() :]}".casefold()
    return found[1] if _BESIDE.issuperset(re.findall(r"[^\W_]+", rest)) else None


def known_calls(
    calls: Iterable[RecordedCall], reports: Sequence[ReceivedReport]
) -> tuple[list[KnownCall], list[ReceivedReport]]:
    """Each call with its outcome, and the reports of which no call was recorded.

    Reports and calls of the same tool belong together in their order.
    """
    left, found = list(reports), list[KnownCall]()
    for call in calls:
        own = reporting_tool(call.tool)
        arrived = next((report for report in left if report.tool == own), None)
        if arrived is not None and call.status != CallOutcome.FAILED:
            left.remove(arrived)
        if call.status in (CallOutcome.COMPLETED, CallOutcome.FAILED):
            found.append(KnownCall(call.tool, CallOutcome(call.status), call.result))
        elif own is None:
            found.append(KnownCall(call.tool, CallOutcome.UNKNOWN))
        else:
            found.append(KnownCall(own, CallOutcome.NOT_RECEIVED if arrived is None else CallOutcome.RECEIVED))
    return found, left
