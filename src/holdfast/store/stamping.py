"""Giving events their place: session, sequence number, time, and link in the chain. The same in every backend."""

from collections.abc import Sequence
from functools import cache

import msgspec

from holdfast.core import chain
from holdfast.core.codec import encode, is_json
from holdfast.core.events import Draft, Envelope, Event
from holdfast.leaf.errors import BadInput, PositionMismatch
from holdfast.store.base import Batch, Desk, Head, Position

RESERVE = 200  # levels of nesting that a line must stay below what can be read; what goes into one, twice as many
_PLAIN = frozenset(
    {str, int, float, bool, str | None, int | None, float | None, bool | None, str | int, str | int | None}
)

_SURELY_SHALLOW = 50  # brackets: with fewer, nothing can be nested deeply

CONTINUES = b" "  # at the end of a line: it was written by one call with the line before it (see `repair`)
_MARKED_END = CONTINUES + b"\n"


def drafted(events: Sequence[Draft | Event]) -> list[Draft]:
    return [event if isinstance(event, Draft) else Draft(event) for event in events]


class Stamp:
    """Stamps the lines of one commit, one after the other: they share a time, and all but the first are marked."""

    def __init__(self, desk: Desk, head: Head, seq: int) -> None:
        self._desk = desk
        self._ts = desk.clock()
        self._link = head.chain
        self._continuing = False
        self.position = head.position
        self.seq = seq

    @property
    def head(self) -> Head:
        return Head(self.position, self._link)

    def lines(self, drafts: Sequence[Draft]) -> Batch:
        """The lines of these events. When one cannot be written, it raises and nothing of them counts."""
        desk, seq, link, continuing = self._desk, self.seq, self._link, self._continuing
        lines = []
        for draft in drafts:
            event = draft.event
            envelope = Envelope(
                ts=self._ts,
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
            line, link = chain.seal(link, _checked(event, _encoded(envelope)))
            lines.append(line + _MARKED_END if continuing else line + b"\n")
            continuing = True
            seq += 1
        batch = Batch(self.position, b"".join(lines))
        self.position += len(batch.data)
        self.seq, self._link, self._continuing = seq, link, continuing
        return batch


def _checked(event: Event, line: bytes) -> bytes:
    """The line, when it is one that can be read back. Only what takes any JSON could be anything else."""
    free_form, raw = _freedoms(type(event))
    for name in raw:
        check_raw(getattr(event, name), f"the {name} of {event.type}")
    if free_form:
        line = one_line(line)
        check_readable(line, event.type)
    return line


def _encoded(envelope: Envelope) -> bytes:
    try:
        return encode(envelope)
    except RecursionError:
        raise BadInput(f"{envelope.type} is nested too deeply to be written") from None


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


def check_expected(position: Position, expect: Position | None) -> None:
    if expect is not None and expect != position:
        raise PositionMismatch(f"the log ends at {position}, not at {expect}; read on and decide again")
