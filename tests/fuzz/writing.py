"""What a reader takes can be written to a log, and is the same when it is read again."""

from holdfast.core.events import Event
from holdfast.core.events.base import Envelope
from holdfast.core.log.codec import CODEC, Line, encode, parse


def must_be_writable(event: Event) -> None:
    line = parse(
        encode(Envelope(ts="2026-02-14T10:00:00.000Z", sid="f4e3d2c1b5a4", seq=0, type=event.type, data=event))
    )
    assert isinstance(line, Line), line
    assert CODEC.event(line) == event
