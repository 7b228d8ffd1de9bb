"""An interrupted turn, and the outcome of each of its tool calls according to the log."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.core.messages.signals import ROLES

_TOOLS = sorted({kind.tool for kinds in ROLES.values() for kind in kinds}, key=len, reverse=True)
_TOOL_NAME = re.compile(rf"(?<![a-z0-9])({'|'.join(_TOOLS)})(?![a-z0-9_])")
_IGNORABLE_WORDS = frozenset({"mcp", "holdfast", "tool", "server", "call", "calling", "use", "using"})


class CallOutcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    RECEIVED = "received"  # a report that Holdfast received, although its call never returned
    NOT_RECEIVED = "not received"  # a report that Holdfast never received
    UNKNOWN = "unknown"  # never returned; it may have taken effect


class RecordedCall(NamedTuple):
    """A tool call as the log has it. `status` is None when it never returned."""

    tool: str
    status: str | None = None
    result: str = ""


class ReceivedReport(NamedTuple):
    """A report that the agent sent with one of Holdfast's tools; `about` tells reports of one tool apart."""

    tool: str
    about: str = ""


class KnownCall(NamedTuple):
    tool: str
    outcome: CallOutcome
    result: str = ""


class InterruptedTurn(NamedTuple):
    """The unanswered request and its results so far, over all turns that continued it.

    `reports` arrived without a tool call that the agent showed. `later_messages` are inbox messages that went into
    continuation prompts, not into the request. `notices` are those in the request.
    """

    request: str
    calls: tuple[KnownCall, ...] = ()
    reports: tuple[ReceivedReport, ...] = ()
    later_messages: frozenset[str] = frozenset()
    notices: frozenset[str] = frozenset()
    rebooted: bool = False


class PendingUpdates(NamedTuple):
    """Messages and notices for an agent, as text, by their keys."""

    messages: Mapping[str, str] = {}
    notices: Mapping[str, str] = {}


NO_UPDATES = PendingUpdates()


def reporting_tool(title: str) -> str | None:
    """The Holdfast tool that a recorded call used, by its title, in any spelling that agents use.

    A title with other words, such as a shell command that mentions the tool, does not match. This permits nothing: for
    permissions see `own_tools`.
    """
    found = _TOOL_NAME.search(title.casefold())
    if found is None:
        return None
    rest = f"{title[: found.start()]} {title[found.end() :]}".casefold()
    return found[1] if _IGNORABLE_WORDS.issuperset(re.findall(r"[^\W_]+", rest)) else None


def known_calls(
    calls: Iterable[RecordedCall], reports: Sequence[ReceivedReport]
) -> tuple[list[KnownCall], list[ReceivedReport]]:
    """Each call with its outcome, and the reports without a recorded call.

    Reports and calls of the same tool are matched in order.
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
