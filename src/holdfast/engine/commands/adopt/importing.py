"""Turns the history of a session into events: turns, messages and tool calls, each with where it came from."""

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.core.conversation.states import IMPORTED, ConversationState
from holdfast.core.events import Event
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.conversation import (
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ImportOrigin,
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.engine.commands.adopt.base import Entry, EntryKind, ForeignConversation
from holdfast.engine.commands.adopt.lines import text_of
from holdfast.leaf.ids import new_sid

MAX_MESSAGE_CHARS = 200_000  # in one event; a longer message continues in the next
MAX_RESULT_CHARS = 500_000  # of one tool result; the middle of a longer one is left out
BATCH_EVENTS, BATCH_CHARS = 500, 2_000_000  # of one append to the log
_IMPORTED_TOOL = "(unnamed tool)"


class _Turn:
    """An open turn: the tool calls that have no result yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: dict[str, str] = {}
        self.has_answer = False


class HistoryImporter:
    """Writes down the conversations of one session. Entries of several conversations may be mixed."""

    def __init__(self, conversations: Iterable[ForeignConversation], agent_of: dict[str, str]) -> None:
        """`agent_of` is the agent that continues each conversation, by key."""
        self._conversations = {each.key: each for each in conversations}
        self._agent_of = agent_of
        self._ids = {key: new_sid() for key in self._conversations}
        self._turns: dict[str, _Turn] = {}
        self._prompts: dict[str, list[Entry]] = {}  # of turns that have no answer yet
        self._count = 0
        self.entries = 0

    def opened(self) -> Iterator[Event]:
        for key, each in self._conversations.items():
            name, agent = self._ids[key], self._agent_of[key]
            yield ConversationOpened(conversation=name, agent=agent, role=each.role, task=each.task, about=each.about)
            if each.native_id is not None and agent == each.native_agent:
                yield ConversationTokenStored(conversation=name, token=each.native_id)

    def events(self, entries: Iterable[Entry]) -> Iterator[Event]:
        for entry in entries:
            if entry.conversation in self._conversations:
                self.entries += 1
                yield from self._add(entry)
        for key in self._conversations:
            yield from self._finish(key)

    def _add(self, entry: Entry) -> Iterator[Event]:
        key = entry.conversation
        if entry.kind is EntryKind.USER:
            turn = self._turns.get(key)
            if turn is not None:
                yield from self._end_turn(key, turn)
            self._prompts.setdefault(key, []).append(entry)
            return
        yield from self._begin_turn(key)
        turn = self._turns[key]
        name, origin = self._ids[key], _origin(entry)
        match entry.kind:
            case EntryKind.CALL:
                turn.calls[entry.call] = entry.tool
                yield ToolCalled(
                    conversation=name,
                    call=entry.call,
                    tool=entry.tool or _IMPORTED_TOOL,
                    turn=turn.name,
                    input=_raw(entry.data),
                    imported=origin,
                )
            case EntryKind.RESULT:
                turn.calls.pop(entry.call, None)
                status = "failed" if entry.failed else "completed"
                output = msgspec.Raw(msgspec.json.encode(_shortened(text_of(entry.data))))
                yield ToolReturned(conversation=name, call=entry.call, status=status, output=output, imported=origin)
            case EntryKind.AGENT | EntryKind.THOUGHT:
                speaker = "agent" if entry.kind is EntryKind.AGENT else "thought"
                yield from self._message(name, speaker, turn.name, entry.text, origin)

    def _begin_turn(self, key: str) -> Iterator[Event]:
        """Start a turn with the prompts that wait for an answer; without one, with what the agent did by itself."""
        prompts = self._prompts.pop(key, [])
        if key in self._turns and not prompts:
            return
        self._count += 1
        turn = self._turns[key] = _Turn(f"imported-{self._count}")
        yield TurnStarted(conversation=self._ids[key], turn=turn.name)
        if prompts:
            text = "\n\n".join(prompt.text for prompt in prompts)
            yield from self._message(self._ids[key], "user", turn.name, text, _origin(prompts[0]))

    @staticmethod
    def _message(name: str, speaker: str, turn: str, text: str, origin: ImportOrigin) -> Iterator[Event]:
        starts = range(0, max(len(text), 1), MAX_MESSAGE_CHARS)
        for start in starts:
            yield MessageRecorded(
                conversation=name,
                speaker=speaker,
                text=text[start : start + MAX_MESSAGE_CHARS],
                turn=turn,
                more=start != starts[-1],
                imported=origin,
            )

    def _end_turn(self, key: str, turn: _Turn, *, interrupted: bool = False) -> Iterator[Event]:
        del self._turns[key]
        name = self._ids[key]
        for call in turn.calls:
            yield ToolReturned(conversation=name, call=call, status="interrupted")
        if interrupted:
            yield TurnInterrupted(conversation=name, turn=turn.name, reason="it was open when the session was adopted")
        else:
            yield TurnEnded(conversation=name, turn=turn.name, stop_reason=IMPORTED)

    def _finish(self, key: str) -> Iterator[Event]:
        each = self._conversations[key]
        if key in self._prompts:
            yield from self._begin_turn(key)
        turn = self._turns.get(key)
        if turn is not None:
            yield from self._end_turn(key, turn, interrupted=each.interrupted)
        state = ConversationState.COMPLETED if each.is_over else ConversationState.WAITING
        yield ConversationStateChanged(conversation=self._ids[key], state=state, reason="imported")


def in_batches(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the events in batches of bounded size. A turn's start is never apart from its prompt."""
    batch: list[Event] = []
    chars = 0
    for event in events:
        if (len(batch) >= BATCH_EVENTS or chars >= BATCH_CHARS) and not (batch and isinstance(batch[-1], TurnStarted)):
            yield batch
            batch, chars = [], 0
        batch.append(event)
        chars += _size(event)
    if batch:
        yield batch


def _size(event: Event) -> int:
    match event:
        case MessageRecorded():
            return len(event.text)
        case ToolCalled():
            return len(bytes(event.input))
        case ToolReturned():
            return len(bytes(event.output))
        case _:
            return 0


def _origin(entry: Entry) -> ImportOrigin:
    return ImportOrigin(source=entry.source, position=entry.position, at=entry.at)


def _raw(data: object) -> msgspec.Raw:
    if data is None:
        return JSON_NULL
    encoded = msgspec.json.encode(data)
    if len(encoded) <= MAX_RESULT_CHARS:
        return msgspec.Raw(encoded)
    return msgspec.Raw(msgspec.json.encode({"cut": _shortened(encoded.decode())}))


def _shortened(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out by holdfast adopt]\n{text[-half:]}"
