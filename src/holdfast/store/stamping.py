"""Giving events their place: session, sequence number, time, and link in the chain. The same in every backend."""

from collections.abc import Iterable
from functools import cache

import msgspec

from holdfast.core import chain
from holdfast.core.codec import encode, is_json
from holdfast.core.events import Draft, Envelope, Event
from holdfast.leaf.errors import BadInput, PositionMismatch
from holdfast.store.base import Desk, Position

RESERVE = 200  # levels of nesting that a line must stay below what can be read; what goes into one, twice as many
_PLAIN = frozenset(
    {str, int, float, bool, str | None, int | None, float | None, bool | None, str | int, str | int | None}
)

_SURELY_SHALLOW = 50  # brackets: with fewer, nothing can be nested deeply

CONTINUES = b" "  # at the end of a line: it was written by one call with the line before it (see `repair`)
_MARKED_END = CONTINUES + b"\n"


class Stamp:
    """Stamps lines one after the other, and keeps them for their commit.

    Those of one commit share a time, and all but the first of them are marked.
    """

    def __init__(self, desk: Desk) -> None:
        self.position, self.link = desk.head
        self._desk = desk
        self._seq = 0
        self._ts: str | None = None  # of this commit: None before its first line
        self._kept: list[bytes] = []

    def lines(self, events: Iterable[Draft | Event]) -> bytes:
        """The lines of these events. When one cannot be written, it raises and nothing of them counts."""
        desk, ts, seq, link = self._desk, self._ts, self._seq, self.link
        lines = []
        for item in events:
            draft = item if isinstance(item, Draft) else Draft(item)
            event = draft.event
            end = b"\n" if ts is None else _MARKED_END
            ts = ts or desk.clock()
            envelope = Envelope(
                ts=ts,
                sid=desk.sid,
                seq=seq,
                type=event.type,
                feature=desk.feature,
                agent=draft.agent,
                pane_id=draft.pane_id,
                data=event,
                trace_id=draft.trace_id,
                span_id=draft.span_id,
            )
            free_form, raw = _freedoms(type(event))
            bare = _checked(envelope, raw) if free_form else encode(envelope)
            line, link = chain.seal(link, bare)
            lines.append(line + end)
            seq += 1
        data = b"".join(lines)
        self.position += len(data)  # first: interrupted after this, it does not fit what is kept, and that shows
        self._ts, self._seq, self.link = ts, seq, link
        self._kept.append(data)
        return data

    def take(self) -> list[bytes]:
        """What was stamped since the last time: the lines of each call. What comes now is for another commit."""
        kept, self._kept, self._ts = self._kept, [], None
        return kept


def _checked(envelope: Envelope, raw: Iterable[str]) -> bytes:
    """The line of an event that takes any JSON, when it can be read back."""
    event = envelope.data
    for name in raw:
        check_raw(getattr(event, name), f"the {name} of {envelope.type}")
    try:
        line = one_line(encode(envelope))
    except RecursionError:
        raise BadInput(f"{envelope.type} is nested too deeply to be written") from None
    check_readable(line, envelope.type)
    return line


def one_line(text: bytes) -> bytes:
    """JSON without newlines: what is given as raw JSON may have some between its parts."""
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


def check_raw(raw: msgspec.Raw, what: str) -> None:
    """That raw JSON is one value, and cannot end the object it is put into."""
    if not is_json(raw):
        raise BadInput(f"{what} is not JSON that can be read back: {bytes(raw)[:60]!r}; nothing of it was written")


def check_readable(line: bytes, what: str, reserve: int = RESERVE) -> None:
    """That a line can be read back, by a reader who stands deeper in the stack than we do.

    Acknowledged all the same, it would look like a torn one ever after.
    """
    if line.count(b"[") + line.count(b"{") < _SURELY_SHALLOW:
        return
    if not is_json(reserve * b"[" + line + reserve * b"]"):
        raise BadInput(
            f"{what} is nested too deeply to be surely read back: {line[-200:][:60]!r}; nothing of it was written"
        )


@cache
def _freedoms(kind: type[Event]) -> tuple[bool, tuple[str, ...]]:
    """Whether an event of this type has fields that take whatever they are given, and which of them take it raw."""
    fields = msgspec.structs.fields(kind)
    raw = tuple(field.name for field in fields if field.type is msgspec.Raw)
    return any(field.type not in _PLAIN for field in fields), raw


def mismatch(position: Position, expect: Position) -> PositionMismatch:
    return PositionMismatch(f"the log ends at {position}, not at {expect}; read on and decide again")
