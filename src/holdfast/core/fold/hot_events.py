"""Talk: the few types of event that agents write by the thousand, nearly all of a long log, read in one go.

What is read here is ordinary in every way: of today's version, with a head that is as it should be, and data
that fits its type. Any other line is refused, and `core.codec` looks at it. So a line means here what it means
there, at less than half the price: nothing is decoded twice, and what was said is not decoded at all.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Union

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.base import VERSION, Seq
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import MessageRecorded, ToolCalled, ToolReturned, TurnEnded, TurnStarted
from holdfast.core.fold.handlers import HANDLERS, Handler
from holdfast.core.log.codec import UNREADABLE

_KINDS: tuple[type[Event], ...] = (MessageRecorded, ToolCalled, ToolReturned, TurnStarted, TurnEnded, UsageRecorded)


class Talk(msgspec.Struct, tag_field="type", frozen=True, gc=False, kw_only=True):
    """The head of a line, its fields in the order in which they are written: that is where they are looked for."""

    v: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)] = VERSION
    ts: str | None = None
    sid: str
    seq: Seq
    feature: str | None = None  # nobody asks for these two, but a line in which they cannot be read is odd
    agent: str | None = None
    data: ClassVar[Any]  # the event, if its type has a handler


def _lines_of(kind: type[Event]) -> type[msgspec.Struct]:
    data = [("data", kind)] if kind.type in HANDLERS else []
    return msgspec.defstruct(kind.__name__, data, bases=(Talk,), tag=kind.type, frozen=True, gc=False, kw_only=True)


_LINES = {_lines_of(kind): kind for kind in _KINDS}
_decode = msgspec.json.Decoder(Union[tuple(_LINES)]).decode  # noqa: UP007  # made from a list, not written out

TALK_HANDLERS: dict[type[msgspec.Struct], Handler | None] = {
    line: HANDLERS.get(kind.type) for line, kind in _LINES.items()
}


def leading_talk(lines: Iterator[bytes]) -> list[Talk]:
    """The talk that comes next. The first line that is something else ends it, and is used up too."""
    talk: list[Talk] = []
    with suppress(*UNREADABLE):
        talk.extend(map(_decode, lines))  # keeps what it has when the next is refused
    return talk
