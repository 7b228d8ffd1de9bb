"""The base of all events: the data of one fact, and the envelope around it."""

from typing import Annotated, ClassVar

import msgspec

VERSION = 1

JSON_NULL = msgspec.Raw(b"null")


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact, in the past tense. Every field is written, so that `jq` finds it.

    Fields that an old log or another tool's log may lack have defaults, so that their events always load.
    """

    type: ClassVar[str]
    envelope_version: ClassVar[int] = VERSION  # higher if a Holdfast that does not know the event must refuse the run


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event before the journal assigns its sequence number and time."""

    event: Event
    agent: str | None = None
    pane_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None


Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a log. The format is the Resume Protocol's, so that both programs read each other's logs.

    `chain` is not a field: it is added to the encoded line (see `core.log.chain`).
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
