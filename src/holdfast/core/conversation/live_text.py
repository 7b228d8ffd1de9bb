"""Combines the text of an open turn in the log with hints of what the agent has said since.

A hint says where its text starts: `offset` counts the characters that its speaker has said in its turn, as the log
counts them, secrets removed. So hints may come twice, late, in any order or not at all, before or after the log has
their text: what is shown is always the beginning of what was said. Text after a gap waits until the log fills the gap.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded, TurnEnded, TurnInterrupted, TurnStarted

_MAX_SHOWN_CHARS = 4_000  # of an open message, kept of what the log already has
_MAX_ENDED_TURNS = 16  # remembered per conversation, to ignore their late hints


class Hint(msgspec.Struct, frozen=True):
    """Text of a turn that may not be in the log yet. `speaker` is agent or thought, as in `message.recorded`."""

    conversation: str
    turn: str
    speaker: str
    offset: int
    text: str

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


class OpenText(NamedTuple):
    """The end of a message that is not complete."""

    speaker: str
    text: str


class LiveText:
    """The text of all open turns of a run. Feed it every event of the log and every hint."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """`events` are those of turns that are already open, from their start."""
        self._turns: dict[tuple[str, str], _TurnText] = {}
        self._ended: dict[str, deque[str]] = {}
        for event in events:
            self.record(event)

    def record(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._turn(event.conversation, event.turn)
            case TurnEnded() | TurnInterrupted():
                self._turns.pop((event.conversation, event.turn), None)
                self._ended.setdefault(event.conversation, deque(maxlen=_MAX_ENDED_TURNS)).append(event.turn)
            case MessageRecorded() if event.turn is not None:
                if not self._has_ended(event.conversation, event.turn):
                    self._turn(event.conversation, event.turn).record(event)
            case _:
                self._end_messages(getattr(event, "conversation", None))

    def add(self, hint: Hint) -> bool:
        """Add a hint; return whether it says something new."""
        if self._has_ended(hint.conversation, hint.turn):
            return False
        return self._turn(hint.conversation, hint.turn).add(hint)

    def unrecorded(self, conversation_id: str, turn_id: str, speaker: str) -> str:
        """Return what follows the text in the log, up to the first gap."""
        turn = self._turns.get((conversation_id, turn_id))
        return turn.text(speaker).unrecorded if turn is not None else ""

    def open_texts(self) -> dict[str, OpenText]:
        """Return the open message of each conversation that has one."""
        found = ((conversation, turn.open_text()) for (conversation, _), turn in self._turns.items())
        return {conversation: text for conversation, text in found if text is not None}

    def _turn(self, conversation_id: str, turn_id: str) -> "_TurnText":
        return self._turns.setdefault((conversation_id, turn_id), _TurnText())

    def _has_ended(self, conversation_id: str, turn_id: str) -> bool:
        return turn_id in self._ended.get(conversation_id, ())

    def _end_messages(self, conversation_id: str | None) -> None:
        """Whatever else an agent does ends its message."""
        for (conversation, _), turn in self._turns.items():
            if conversation == conversation_id:
                turn.end_message()


class _TurnText:
    """What each speaker said in one turn."""

    def __init__(self) -> None:
        self._texts: dict[str, _SpeakerText] = {}
        self._newest: str | None = None  # who spoke last

    def text(self, speaker: str) -> "_SpeakerText":
        return self._texts.setdefault(speaker, _SpeakerText())

    def record(self, event: MessageRecorded) -> None:
        if event.speaker != self._newest:
            self.end_message()
        self._newest = event.speaker
        self.text(event.speaker).record(event.text, more=event.more)

    def add(self, hint: Hint) -> bool:
        is_new = self.text(hint.speaker).add(hint.offset, hint.text)
        if is_new:
            self._newest = hint.speaker
        return is_new

    def end_message(self) -> None:
        for text in self._texts.values():
            text.shown = ""

    def open_text(self) -> OpenText | None:
        if self._newest is None:
            return None
        text = self.text(self._newest)
        shown = (text.shown + text.unrecorded)[-_MAX_SHOWN_CHARS:]
        return OpenText(self._newest, shown) if shown else None


class _SpeakerText:
    """`shown` is the end of the open message, as far as the log has it."""

    def __init__(self) -> None:
        self.shown = ""
        self._recorded = 0  # characters in the log
        self._pieces: list[tuple[int, str]] = []  # of hints, beyond the log; they neither overlap nor touch

    @property
    def unrecorded(self) -> str:
        return next((text for offset, text in self._pieces if offset == self._recorded), "")

    def record(self, text: str, *, more: bool) -> None:
        self.shown = (self.shown + text)[-_MAX_SHOWN_CHARS:] if more else ""
        self._recorded += len(text)
        pieces, self._pieces = self._pieces, []
        for offset, piece in pieces:
            self.add(offset, piece)

    def add(self, offset: int, text: str) -> bool:
        if offset < self._recorded:
            offset, text = self._recorded, text[self._recorded - offset :]
        if not text or any(start <= offset and offset + len(text) <= start + len(old) for start, old in self._pieces):
            return False
        apart: list[tuple[int, str]] = []
        for start, old in self._pieces:
            if start + len(old) < offset or start > offset + len(text):
                apart.append((start, old))
                continue
            text += old[max(0, offset + len(text) - start) :]
            if start < offset:
                offset, text = start, old[: offset - start] + text
        self._pieces = sorted([*apart, (offset, text)])
        return True
