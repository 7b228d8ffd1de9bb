"""Giving events their place: session, sequence number, time, and link in the chain. The same in every backend."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

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

CONTINUES = b" "  # at the end of a line: it was written by one call with the line before it (see `repair`)


class Stamped(NamedTuple):
    """Lines ready to be written, and where they will leave the log."""

    batch: Batch
    head: Head
    seq: int


def drafted(events: Sequence[Draft | Event]) -> list[Draft]:
    return [event if isinstance(event, Draft) else Draft(event) for event in events]


def stamp(desk: Desk, head: Head, seq: int, drafts: Sequence[Draft], *, continuing: bool) -> Stamped:
    """`continuing` when other lines stand before these in the same write."""
    link, lines, ts = head.chain, [], desk.clock()
    for draft in drafts:
        envelope = Envelope(
            ts=ts,
            sid=desk.sid,
            seq=seq,
            type=draft.event.type,
            feature=desk.feature,
            agent=draft.agent,
            pane_id=draft.pane_id,
            data=draft.event,
            trace_id=draft.trace_id,
            span_id=draft.span_id,
        )
        for name in _raw_fields(type(draft.event)):
            check_raw(getattr(draft.event, name), f"the {name} of {draft.event.type}")
        bare = one_line(_encoded(envelope))
        if _is_free_form(type(draft.event)):
            check_readable(bare, draft.event.type)
        line, link = chain.seal(link, bare)
        lines.append(line + CONTINUES + b"\n" if continuing else line + b"\n")
        continuing = True
        seq += 1
    batch = Batch(head.position, b"".join(lines))
    return Stamped(batch, Head(batch.end, link), seq)


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
    if not is_json(reserve * b"[" + line + reserve * b"]"):
        raise BadInput(
            f"{what} is nested too deeply to be surely read back: {line[-200:][:60]!r}; nothing of it was written"
        )


@cache
def _raw_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is msgspec.Raw)


@cache
def _is_free_form(kind: type[Event]) -> bool:
    """True when the event has a field that takes whatever it is given."""
    return any(field.type not in _PLAIN for field in msgspec.structs.fields(kind))


def check_expected(head: Head, expect: Position | None) -> None:
    if expect is not None and expect != head.position:
        raise PositionMismatch(f"the log ends at {head.position}, not at {expect}; read on and decide again")
