"""Turns events into lines with session, sequence number, time and chain link. The same in every backend."""

from collections.abc import Sequence
from functools import cache

import msgspec

from holdfast.core.events import Draft, Envelope, Event
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.conversation import ImportOrigin
from holdfast.core.log import chain
from holdfast.core.log.codec import encode, is_json
from holdfast.core.redaction.events import redact_event
from holdfast.leaf.errors import BadInput, PositionMismatch
from holdfast.leaf.text.encodable import make_encodable
from holdfast.store.base import Position, WriterContext

RESERVED_NESTING = 200  # levels that a line must stay below the readable maximum; twice as many for what goes into one
_PLAIN_TYPES = frozenset(
    {
        *(str, int, float, bool, str | None, int | None, float | None, bool | None, str | int, str | int | None),
        ImportOrigin | msgspec.UnsetType,
    }
)

_SHALLOW_BRACKETS = 50  # with fewer brackets, nothing is nested deeply

CONTINUATION_MARK = b" "  # at the end of a line: it belongs to the same commit as the line before it (see `repair`)
_MARKED_NEWLINE = CONTINUATION_MARK + b"\n"


class Sequencer:
    """Encodes lines one after the other, and keeps them for the next commit.

    Lines of one commit share a time, and all but the first are marked as continuation. Of one call, all but the last
    are marked as "more to come".
    """

    def __init__(self, context: WriterContext) -> None:
        self.position, self.link = context.head
        self._sid, self._feature, self._clock = context.sid, context.feature, context.clock
        self._agent_of = context.agent_of
        self._trace_id = context.trace.trace_id if context.trace is not None else None
        self._span_of = context.trace.span_of if context.trace is not None else _no_span
        self._redactor = context.redactor
        self._seq = 0
        self._ts: str | None = None  # the time of this commit; None before its first line
        self._pending: list[bytes] = []

    def encode_lines(self, events: Sequence[Draft | Event]) -> bytes:
        """Return the lines of these events. Raises, without any effect, when one cannot be encoded."""
        ts, seq, link = self._ts, self._seq, self.link
        more = len(events) - 1
        lines = []
        redactor = self._redactor
        for item in events:
            draft = item if isinstance(item, Draft) else Draft(item)
            event = redact_event(draft.event, redactor)
            kind = type(event)
            if ts is None:
                ts, end = self._clock(), b"\n"
            else:
                end = _MARKED_NEWLINE
            envelope = Envelope(
                v=kind.envelope_version,
                ts=ts,
                sid=self._sid,
                seq=seq,
                type=kind.type,
                feature=self._feature,
                agent=draft.agent or self._agent_of(event),
                pane_id=draft.pane_id,
                data=event,
                trace_id=draft.trace_id or self._trace_id,
                span_id=draft.span_id or self._span_of(event),
            )
            try:
                bare = encode(envelope) if _is_plain(kind) else _encode_checked(envelope)
            except UnicodeEncodeError:  # it contains text that is not valid Unicode, for example a file name
                bare = _encode_checked(make_encodable(envelope))
            if more:
                bare = chain.mark_more_to_come(bare)
                more -= 1
            line, link = chain.seal(link, bare, end)
            lines.append(line)
            seq += 1
        data = b"".join(lines)
        self.position += len(
            data
        )  # first: if interrupted after this, `_commit` sees that it does not match the pending lines
        self._ts, self._seq, self.link = ts, seq, link
        self._pending.append(data)
        return data

    def take_pending(self) -> list[bytes]:
        """Return the lines of each call since the last commit. Lines encoded from now on belong to the next one."""
        pending, self._pending, self._ts = self._pending, [], None
        return pending


def _no_span(_: Event) -> None:
    return None


@cache  # asked when an event is first written: most runs write few of all types, and a type's fields take long to list
def _is_plain(kind: type[Event]) -> bool:
    """Whether these events always become a readable line."""
    return all(field.type in _PLAIN_TYPES for field in msgspec.structs.fields(kind))


def _encode_checked(envelope: Envelope) -> bytes:
    """Encode an event that contains arbitrary JSON; raises when the line could not be read back."""
    event = envelope.data
    for name in _raw_fields(type(event)):
        raw = getattr(event, name)
        if raw is not JSON_NULL and not is_json(raw):
            raise _not_json_error(raw, f"the {name} of {envelope.type}")
    try:
        line = one_line(encode(envelope))
    except RecursionError:
        raise BadInput(f"{envelope.type} is nested too deeply to write") from None
    check_readable(line, envelope.type)
    return line


def one_line(text: bytes) -> bytes:
    """Return JSON without newlines: raw JSON may contain some."""
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


def check_raw_json(raw: msgspec.Raw, label: str) -> None:
    """Raise unless raw JSON is one complete value, which cannot end the object that contains it."""
    if not is_json(raw):
        raise _not_json_error(raw, label)


def _not_json_error(raw: msgspec.Raw, label: str) -> BadInput:
    return BadInput(f"{label} is not valid JSON: {bytes(raw)[:60]!r}; nothing was written")


def check_readable(line: bytes, label: str, reserve: int = RESERVED_NESTING) -> None:
    """Raise unless a reader deeper in the stack than we are can read the line.

    An acknowledged line that cannot be read would look torn forever.
    """
    if line.count(b"[") + line.count(b"{") < _SHALLOW_BRACKETS:
        return
    if not is_json(reserve * b"[" + line + reserve * b"]"):
        raise BadInput(f"{label} is nested too deeply: {line[-200:][:60]!r}; nothing was written")


@cache
def _raw_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is msgspec.Raw)


def position_mismatch(position: Position, expect: Position) -> PositionMismatch:
    return PositionMismatch(f"the log ends at {position}, not at {expect}; read the new events and decide again")
