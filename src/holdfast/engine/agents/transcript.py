"""A conversation's past, from the log: the newest first, and no more of it than is wanted."""

from collections.abc import AsyncIterator

import msgspec

from holdfast.core.conversation.history import MESSAGE, TOTAL, Entry, History, Kind
from holdfast.core.conversation.interruption import InterruptedTurn, ReceivedReport, RecordedCall, known_calls
from holdfast.core.conversation.states import CUT_OFF
from holdfast.core.conversation.tool_output import text_of_result
from holdfast.core.events import Event
from holdfast.core.events.conversation import (
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxConsumed
from holdfast.core.log.codec import CODEC, UNREADABLE, Line, Unfit, parse
from holdfast.core.messages.reports import SIGNAL, Report
from holdfast.store.base import Log
from holdfast.workflows.quoting import middle_out

_WANTED = frozenset(
    kind.type
    for kind in (MessageRecorded, ToolCalled, ToolReturned, TurnStarted, TurnEnded, TurnInterrupted, InboxConsumed)
)
_AGENT = ("agent", "thought")
_LEFT_OUT = 100  # characters for the words that say how much was cut out
_SPEAKERS = {"user": Kind.USER, "agent": Kind.ASSISTANT}


async def history_of(log: Log, conversation: str, budget: int = TOTAL) -> History:
    """What was said and done, within a budget, read from the log's end."""
    history = History(budget)
    async for entry in _entries(log, conversation):
        if not history.add(entry):
            break
    return history


async def interrupted_turn(log: Log, conversation: str) -> InterruptedTurn | None:
    """The newest turn, when it was interrupted. The request is older when that turn itself continued another."""
    returned: dict[str, ToolReturned] = {}
    calls: list[RecordedCall] = []
    reports: list[ReceivedReport] = []
    later: set[str] = set()
    cut = rebooted = False
    events = _events(log, conversation)
    async for event in events:
        match event:
            case TurnEnded() if not cut and event.stop_reason not in CUT_OFF:
                return None
            case TurnEnded() | TurnInterrupted():
                cut, rebooted = True, rebooted or getattr(event, "rebooted", False)
            case TurnStarted():
                later.update(event.messages)
                returned.clear()
            case ToolReturned():
                returned[event.call] = event
            case ToolCalled():
                calls.append(_recorded(event, returned.pop(event.call, None)))
            case InboxConsumed():
                reports += _report(event)
            case MessageRecorded() if event.speaker == "user":
                start = await anext(events, None)  # both are written in one commit
                notices = frozenset(start.notices) if isinstance(start, TurnStarted) else frozenset[str]()
                known, left = known_calls(reversed(calls), reports[::-1])
                found = InterruptedTurn(event.text, tuple(known), tuple(left), frozenset(later), notices, rebooted)
                return found if cut else None
    return None


def _recorded(call: ToolCalled, result: ToolReturned | None) -> RecordedCall:
    if result is None:
        return RecordedCall(call.tool)
    return RecordedCall(call.tool, result.status, text_of_result(bytes(result.content), bytes(result.output)))


def _report(event: InboxConsumed) -> list[ReceivedReport]:
    """What was received by one of our tools, named by its topic or title where it has one."""
    if not event.kind.startswith(SIGNAL):
        return []
    signal = msgspec.json.decode(event.body, type=Report).signal
    about = next((str(signal[name]) for name in ("topic", "title") if signal.get(name)), "")
    return [ReceivedReport(event.kind.removeprefix(SIGNAL), about)]


async def was_heard(log: Log, conversation: str, turn: str) -> bool:
    """True when the agent did something in this turn: then it has the prompt."""
    async for event in _events(log, conversation):
        if isinstance(event, TurnStarted) and event.turn == turn:
            return False
        if isinstance(event, ToolCalled) or (isinstance(event, MessageRecorded) and event.speaker in _AGENT):
            return True
    return False


async def _entries(log: Log, conversation: str) -> AsyncIterator[Entry]:
    """Messages whole, though they were written in parts; each result with the name of its tool.

    A prompt that continues a turn is an entry only when it delivered messages: the rest of it restates what is there.
    Its messages stand at its end, so what is too long of it is cut out of its middle.
    """
    parts: list[MessageRecorded] = []
    results: dict[str, ToolReturned] = {}
    continuing: MessageRecorded | None = None
    async for event in _events(log, conversation):
        if parts and not (isinstance(event, MessageRecorded) and event.more and event.speaker == parts[-1].speaker):
            yield _said(parts)
            parts = []
        match event:
            case MessageRecorded() if event.speaker in _SPEAKERS:
                parts.append(event)
            case MessageRecorded() if event.speaker == "system":
                continuing = event
            case TurnStarted() if continuing is not None and continuing.turn == event.turn and event.messages:
                yield Entry(Kind.USER, middle_out(continuing.text, MESSAGE - _LEFT_OUT))
            case ToolReturned():
                results[event.call] = event
            case ToolCalled():
                for entry in _call(event, results.pop(event.call, None)):
                    yield entry
    if parts:
        yield _said(parts)


def _call(call: ToolCalled, result: ToolReturned | None) -> list[Entry]:
    returned = [Entry(Kind.RESULT, _shown(result), call.tool)] if result is not None else []
    return [*returned, Entry(Kind.CALL, tool=call.tool)]


def _said(newest_first: list[MessageRecorded]) -> Entry:
    return Entry(_SPEAKERS[newest_first[0].speaker], "".join(part.text for part in reversed(newest_first)))


def _shown(result: ToolReturned) -> str:
    text = text_of_result(bytes(result.content), bytes(result.output))
    if not text:
        return result.status
    return text if result.status == "completed" else f"({result.status}) {text}"


async def _events(log: Log, conversation: str) -> AsyncIterator[Event]:
    """Those of a conversation, and the reports that came from it; the newest first."""
    mark = f'"conversation":"{conversation}"'.encode()
    async for batch in log.read_back():
        for raw in reversed(batch.data.split(b"\n")):
            if mark not in raw:
                continue
            line = parse(raw)
            if isinstance(line, Line) and line.type in _WANTED:
                try:
                    event = CODEC.event(line)
                except Unfit as unfit:
                    event = unfit.without
                if event is not None and _whose(event) == conversation:
                    yield event


def _whose(event: Event) -> str | None:
    if not isinstance(event, InboxConsumed):
        return getattr(event, "conversation", None)
    try:
        return msgspec.json.decode(event.body, type=Report).conversation if event.kind.startswith(SIGNAL) else None
    except UNREADABLE:
        return None
