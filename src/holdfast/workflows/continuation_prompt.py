"""What an agent is told whose turn was interrupted, as text. Pure: the same turn is the same prompt, byte for byte.

The request is restated: some agents forget the message of a turn in which they were killed.
"""

from collections.abc import Iterator, Sequence

from holdfast.core.conversation.interruption import CallOutcome, InterruptedTurn, KnownCall
from holdfast.core.messages.signals import RequestResearch
from holdfast.core.text.cut import cut
from holdfast.workflows.quoting import clean, fenced, inline, of_terminal

CALLS = 40  # the newest calls are listed
RESULT = 200  # characters of one call's result

_MEANING = {
    CallOutcome.COMPLETED: "completed",
    CallOutcome.FAILED: "failed",
    CallOutcome.RECEIVED: "Holdfast received it; do not call it again",
    CallOutcome.NOT_RECEIVED: "Holdfast did not receive it; call it again if it still applies",
    CallOutcome.UNKNOWN: "it did not return; whether it took effect is not known",
}
_ANSWERED_LATER = "; the answer comes to you as a message"


def continue_turn(turn: InterruptedTurn, messages: Sequence[str] = (), notices: Sequence[str] = ()) -> str:
    """`messages` and `notices` are those that the request does not have."""
    reboot = "The machine went down with it: files that you wrote in that turn may be missing or cut short."
    parts = [
        "Your last turn was interrupted before it ended. Look at what is done, do not repeat it, and continue.",
        reboot if turn.rebooted else "",
        "\n".join(_calls(turn.calls)),
        "\n".join(_reports(turn)),
        f"The request was:\n{turn.request}",
        *_since(messages, notices),
    ]
    return "\n\n".join(part for part in parts if part)


def repeat_request(turn: InterruptedTurn, messages: Sequence[str] = (), notices: Sequence[str] = ()) -> str:
    """The same request again, with what arrived since."""
    return "\n\n".join([turn.request, *_since(messages, notices)])


def _since(messages: Sequence[str], notices: Sequence[str]) -> Iterator[str]:
    if notices:
        yield "Since then:\n\n" + "\n\n".join(notices)
    if messages:
        texts = "\n\n".join(fenced(text) for text in messages)
        yield f"These messages to you arrived since then. Where they differ from the request, follow them:\n\n{texts}"


def _calls(calls: Sequence[KnownCall]) -> Iterator[str]:
    if not calls:
        return
    yield "Your tool calls in it, as Holdfast recorded them:"
    if len(calls) > CALLS:
        yield f"- {len(calls) - CALLS} earlier calls are left out"
    for call in calls[-CALLS:]:
        research = call.outcome is CallOutcome.RECEIVED and call.tool == RequestResearch.tool
        result = " ".join(clean(of_terminal(call.result)).split())
        shown = f": {cut(result, RESULT)}" if result else ""
        yield f"- {inline(call.tool)}: {_MEANING[call.outcome]}{_ANSWERED_LATER * research}{shown}"


def _reports(turn: InterruptedTurn) -> Iterator[str]:
    if turn.reports:
        yield "Holdfast also received these reports from you; do not send them again:"
    for report in turn.reports:
        about = f" ({inline(report.about)})" if report.about else ""
        yield f"- {inline(report.tool)}{about}{_ANSWERED_LATER * (report.tool == RequestResearch.tool)}"
