"""Reads a conversation's past from the log, newest first, and no more than needed."""

from collections.abc import AsyncIterator, Sequence

from holdfast.core.conversation.history import MAX_HISTORY_CHARS, MAX_MESSAGE_CHARS, EntryKind, History, HistoryEntry
from holdfast.core.conversation.interruption import InterruptedTurn, ReceivedReport, RecordedCall, known_calls
from holdfast.core.conversation.states import UNFINISHED_TURN_REASONS
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
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.messages.schema import Report, try_decode_body
from holdfast.core.state import RunState
from holdfast.core.text.cut import cut_middle
from holdfast.store.base import Log

_EVENT_TYPES = frozenset(
    kind.type
    for kind in (MessageRecorded, ToolCalled, ToolReturned, TurnStarted, TurnEnded, TurnInterrupted, InboxConsumed)
)
_AGENT_SPEAKERS = ("agent", "thought")
_OMISSION_NOTE_CHARS = 100  # room for the note of how much was cut
_SPEAKERS = {"user": EntryKind.USER, "agent": EntryKind.ASSISTANT}


def conversation_lineage(state: RunState, conversation_id: str) -> tuple[str, ...]:
    """The conversation and those of other agents that it continues, the newest first."""
    found: dict[str, None] = {}
    name: str | None = conversation_id
    while name is not None and name not in found:
        found[name] = None
        conversation = state.conversations.get(name)
        name = conversation.after if conversation is not None else None
    return tuple(found)


async def history_of(log: Log, lineage: Sequence[str], max_chars: int = MAX_HISTORY_CHARS) -> History:
    """Return these conversations as one, within a budget, read from the log's end."""
    history = History(max_chars)
    async for entry in _entries(log, *lineage):
        if not history.add(entry):
            break
    return history


async def last_reply(log: Log, conversation_id: str) -> str:
    """The last text of the agent; empty when it said nothing."""
    async for entry in _entries(log, conversation_id):
        if entry.kind is EntryKind.ASSISTANT:
            return entry.text
    return ""


async def interrupted_turn(log: Log, conversation_id: str) -> InterruptedTurn | None:
    """Return the newest turn if it was interrupted. The request is older if that turn itself continued another."""
    returned: dict[str, ToolReturned] = {}
    calls: list[RecordedCall] = []
    reports: list[ReceivedReport] = []
    later: set[str] = set()
    was_interrupted = rebooted = False
    events = _events(log, conversation_id)
    async for event in events:
        match event:
            case TurnEnded() if not was_interrupted and (event.by or event.stop_reason not in UNFINISHED_TURN_REASONS):
                return None
            case TurnEnded() | TurnInterrupted():
                was_interrupted, rebooted = True, rebooted or getattr(event, "rebooted", False)
            case TurnStarted():
                later.update(event.messages)
                returned.clear()
            case ToolReturned():
                returned[event.call] = event
            case ToolCalled():
                calls.append(_recorded_call(event, returned.pop(event.call, None)))
            case InboxConsumed():
                reports += _received_reports(event)
            case MessageRecorded() if event.speaker == "user":
                start = await anext(events, None)  # both were written in one commit
                notices = frozenset(start.notices) if isinstance(start, TurnStarted) else frozenset[str]()
                known, left = known_calls(reversed(calls), reports[::-1])
                found = InterruptedTurn(event.text, tuple(known), tuple(left), frozenset(later), notices, rebooted)
                return found if was_interrupted else None
    return None


def _recorded_call(call: ToolCalled, result: ToolReturned | None) -> RecordedCall:
    if result is None:
        return RecordedCall(call.tool)
    return RecordedCall(call.tool, result.status, text_of_result(bytes(result.content), bytes(result.output)))


def _received_reports(event: InboxConsumed) -> list[ReceivedReport]:
    """Return what one of our tools received, named by its topic or title if it has one."""
    report = try_decode_body(event.kind, event.body)
    if not isinstance(report, Report):
        return []
    about = next((str(report.arguments[name]) for name in ("topic", "title") if report.arguments.get(name)), "")
    return [ReceivedReport(report.tool, about)]


async def was_heard(log: Log, conversation_id: str, turn_id: str) -> bool:
    """Return True if the agent did something in this turn: then it has received the prompt."""
    async for event in _events(log, conversation_id):
        if isinstance(event, TurnStarted) and event.turn == turn_id:
            return False
        if isinstance(event, ToolCalled) or (isinstance(event, MessageRecorded) and event.speaker in _AGENT_SPEAKERS):
            return True
    return False


async def _entries(log: Log, *conversation_ids: str) -> AsyncIterator[HistoryEntry]:
    """Yield messages joined from their parts, and results with their tool's name.

    A prompt that continues a turn is an entry only if it delivered messages: the rest of it repeats earlier text. Its
    messages are at its end, so a long one is cut in the middle.
    """
    parts: list[MessageRecorded] = []
    results: dict[str, ToolReturned] = {}
    continuing: MessageRecorded | None = None
    async for event in _events(log, *conversation_ids):
        if parts and not (isinstance(event, MessageRecorded) and event.more and event.speaker == parts[-1].speaker):
            yield _message_entry(parts)
            parts = []
        match event:
            case MessageRecorded() if event.speaker in _SPEAKERS:
                parts.append(event)
            case MessageRecorded() if event.speaker == "system":
                continuing = event
            case TurnStarted() if continuing is not None and continuing.turn == event.turn and event.messages:
                yield HistoryEntry(
                    EntryKind.USER, cut_middle(continuing.text, MAX_MESSAGE_CHARS - _OMISSION_NOTE_CHARS)
                )
            case ToolReturned():
                results[event.call] = event
            case ToolCalled():
                for entry in _call_entries(event, results.pop(event.call, None)):
                    yield entry
    if parts:
        yield _message_entry(parts)


def _call_entries(call: ToolCalled, result: ToolReturned | None) -> list[HistoryEntry]:
    returned = [HistoryEntry(EntryKind.RESULT, _result_text(result), call.tool)] if result is not None else []
    return [*returned, HistoryEntry(EntryKind.CALL, tool=call.tool)]


def _message_entry(newest_first: list[MessageRecorded]) -> HistoryEntry:
    return HistoryEntry(_SPEAKERS[newest_first[0].speaker], "".join(part.text for part in reversed(newest_first)))


def _result_text(result: ToolReturned) -> str:
    text = text_of_result(bytes(result.content), bytes(result.output))
    if not text:
        return result.status
    return text if result.status == "completed" else f"({result.status}) {text}"


async def _events(log: Log, *conversation_ids: str) -> AsyncIterator[Event]:
    """Yield the events of these conversations and the reports from them, newest first."""
    marks = [f'"conversation":"{conversation_id}"'.encode() for conversation_id in conversation_ids]
    async for batch in log.read_backwards():
        for raw in reversed(batch.data.split(b"\n")):
            if not any(mark in raw for mark in marks):
                continue
            line = parse(raw)
            if isinstance(line, Line) and line.type in _EVENT_TYPES:
                try:
                    event = CODEC.event(line)
                except InvalidEventData as unfit:
                    event = unfit.partial_event
                if event is not None and _conversation_of(event) in conversation_ids:
                    yield event


def _conversation_of(event: Event) -> str | None:
    if not isinstance(event, InboxConsumed):
        return getattr(event, "conversation", None)
    report = try_decode_body(event.kind, event.body)
    return report.conversation if isinstance(report, Report) else None
