"""What every event is made of: the data of one fact, and the envelope that carries it."""

from typing import Annotated, ClassVar

import msgspec

VERSION = 1

NOTHING = msgspec.Raw(b"null")


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact, in the past tense. Subclasses name their `type`; every field is written, so `jq` finds it.

    Fields that another tool's log may lack have defaults: old and foreign events always load.
    """

    type: ClassVar[str]


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event on its way into the log, before the journal gives it its place and time."""

    event: Event
    agent: str | None = None
    pane_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None


Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a log: the Resume Protocol's own envelope, so that either program reads the other's log.

    `chain` is not a field here: it closes the line and belongs to its bytes (see `core.chain`).
    """

    v: int = VERSION
    ts: str | None = None
    sid: str
    seq: Seq
    type: str
    feature: str | None = None
    agent: str | None = None
    pane_id: str | None = None
    data: Event | msgspec.Raw
    trace_id: str | None = None
    span_id: str | None = None
