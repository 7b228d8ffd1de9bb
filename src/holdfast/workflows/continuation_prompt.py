"""The prompt that continues an interrupted turn. Pure: the same turn gives the same prompt, byte for byte.

The prompt repeats the request: some agents forget the message of a turn in which they were killed.
"""

from collections.abc import Iterator, Sequence

from holdfast.core.conversation.interruption import CallOutcome, InterruptedTurn, KnownCall
from holdfast.core.messages.signals import RequestResearch
from holdfast.core.text.cut import cut
from holdfast.workflows.quoting import clean, clean_terminal_output, fenced, inline

MAX_CALLS = 40  # the newest ones
MAX_RESULT_CHARS = 200  # of one call

_OUTCOME_TEXT = {
    CallOutcome.COMPLETED: "completed",
    CallOutcome.FAILED: "failed",
    CallOutcome.RECEIVED: "Holdfast received it; do not call it again",
    CallOutcome.NOT_RECEIVED: "Holdfast did not receive it; call it again if it still applies",
    CallOutcome.UNKNOWN: "it did not return; it may or may not have taken effect",
}
_ANSWERED_LATER = "; you get the answer as a message"


def continue_turn(turn: InterruptedTurn, messages: Sequence[str] = (), notices: Sequence[str] = ()) -> str:
    """The prompt that continues a turn. `messages` and `notices` are those that are not in the request."""
    reboot = "The machine went down too: files that you wrote in that turn may be missing or cut short."
    parts = [
        "Your last turn was interrupted before it ended. Check what is done, do not repeat it, and continue.",
        reboot if turn.rebooted else "",
        "\n".join(_call_lines(turn.calls)),
        "\n".join(_report_lines(turn)),
        f"The request was:\n{turn.request}",
        *_news_sections(messages, notices),
    ]
    return "\n\n".join(part for part in parts if part)


def repeat_request(turn: InterruptedTurn, messages: Sequence[str] = (), notices: Sequence[str] = ()) -> str:
    """The same request again, with the messages that arrived since."""
    return "\n\n".join([turn.request, *_news_sections(messages, notices)])


def _news_sections(messages: Sequence[str], notices: Sequence[str]) -> Iterator[str]:
    if notices:
        yield "Since then:\n\n" + "\n\n".join(notices)
    if messages:
        texts = "\n\n".join(fenced(text) for text in messages)
        yield f"These messages to you arrived since then. Where they contradict the request, follow them:\n\n{texts}"


def _call_lines(calls: Sequence[KnownCall]) -> Iterator[str]:
    if not calls:
        return
    yield "Your tool calls in that turn, as Holdfast recorded them:"
    if len(calls) > MAX_CALLS:
        yield f"- {len(calls) - MAX_CALLS} earlier calls are left out"
    for call in calls[-MAX_CALLS:]:
        research = call.outcome is CallOutcome.RECEIVED and call.tool == RequestResearch.tool
        result = " ".join(clean(clean_terminal_output(call.result)).split())
        shown = f": {cut(result, MAX_RESULT_CHARS)}" if result else ""
        yield f"- {inline(call.tool)}: {_OUTCOME_TEXT[call.outcome]}{_ANSWERED_LATER * research}{shown}"


def _report_lines(turn: InterruptedTurn) -> Iterator[str]:
    if turn.reports:
        yield "Holdfast also received these reports from you; do not send them again:"
    for report in turn.reports:
        about = f" ({inline(report.about)})" if report.about else ""
        yield f"- {inline(report.tool)}{about}{_ANSWERED_LATER * (report.tool == RequestResearch.tool)}"
