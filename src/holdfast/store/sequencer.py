"""Giving events their place: session, sequence number, time, and link in the chain. The same in every backend."""

from collections.abc import Sequence
from functools import cache

import msgspec

from holdfast.core.events import TYPES, Draft, Envelope, Event
from holdfast.core.events.base import NOTHING
from holdfast.core.log import chain
from holdfast.core.log.codec import encode, is_json
from holdfast.core.redaction.events import without_secrets
from holdfast.leaf.errors import BadInput, PositionMismatch
from holdfast.leaf.text.encodable import encodable
from holdfast.store.base import Desk, Position

RESERVE = 200  # levels of nesting that a line must stay below what can be read; what goes into one, twice as many
_PLAIN = frozenset(
    {str, int, float, bool, str | None, int | None, float | None, bool | None, str | int, str | int | None}
)

_PLAIN_KINDS = frozenset(
    kind for kind in TYPES.values() if all(field.type in _PLAIN for field in msgspec.structs.fields(kind))
)  # of events that cannot become anything but a line that can be read back

_SURELY_SHALLOW = 50  # brackets: with fewer, nothing can be nested deeply

CONTINUES = b" "  # at the end of a line: it was written together with the line before it (see `repair`)
_MARKED_END = CONTINUES + b"\n"


class Stamp:
    """Stamps lines one after the other, and keeps them for their commit.

    Those of one commit share a time, and all but the first of them are marked; so are all but the last of one call.
    """

    def __init__(self, desk: Desk) -> None:
        self.position, self.link = desk.head
        self._sid, self._feature, self._clock = desk.sid, desk.feature, desk.clock
        self._agent_of = desk.agent_of
        self._redactor = desk.redactor
        self._seq = 0
        self._ts: str | None = None  # of this commit: None before its first line
        self._kept: list[bytes] = []

    def lines(self, events: Sequence[Draft | Event]) -> bytes:
        """The lines of these events. When one cannot be written, it raises and nothing of them counts."""
        ts, seq, link = self._ts, self._seq, self.link
        more = len(events) - 1
        lines = []
        redactor = self._redactor
        for item in events:
            draft = item if isinstance(item, Draft) else Draft(item)
            event = without_secrets(draft.event, redactor)
            kind = type(event)
            if ts is None:
                ts, end = self._clock(), b"\n"
            else:
                end = _MARKED_END
            envelope = Envelope(
                ts=ts,
                sid=self._sid,
                seq=seq,
                type=kind.type,
                feature=self._feature,
                agent=draft.agent or self._agent_of(event),
                pane_id=draft.pane_id,
                data=event,
                trace_id=draft.trace_id,
                span_id=draft.span_id,
            )
            try:
                bare = encode(envelope) if kind in _PLAIN_KINDS else _checked(envelope)
            except UnicodeEncodeError:  # a name in it is no text, as that of a file may be
                bare = _checked(encodable(envelope))
            if more:
                bare = chain.with_more_to_come(bare)
                more -= 1
            line, link = chain.seal(link, bare, end)
            lines.append(line)
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


def _checked(envelope: Envelope) -> bytes:
    """The line of an event that takes any JSON, when it can be read back."""
    event = envelope.data
    for name in _raw_fields(type(event)):
        raw = getattr(event, name)
        if raw is not NOTHING and not is_json(raw):
            raise _not_json(raw, f"the {name} of {envelope.type}")
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
        raise _not_json(raw, what)


def _not_json(raw: msgspec.Raw, what: str) -> BadInput:
    return BadInput(f"{what} is not JSON that can be read back: {bytes(raw)[:60]!r}; nothing of it was written")


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
def _raw_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is msgspec.Raw)


def mismatch(position: Position, expect: Position) -> PositionMismatch:
    return PositionMismatch(f"the log ends at {position}, not at {expect}; read on and decide again")
