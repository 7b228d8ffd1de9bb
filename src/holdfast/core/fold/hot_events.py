"""Hot events: the few event types that agents write by the thousand, nearly all of a long log, decoded in bulk.

Only regular lines are read here: of the current version, with a valid head, and data that fits its type. Any other line
is left to `log.codec`. The result is the same at less than half the cost: nothing is decoded twice, and the text of
messages is not decoded at all.
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
from holdfast.core.log.codec import DECODE_ERRORS

_HOT_EVENTS: tuple[type[Event], ...] = (
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnStarted,
    TurnEnded,
    UsageRecorded,
)


class HotLine(msgspec.Struct, tag_field="type", frozen=True, gc=False, kw_only=True):
    """The head of a line. Fields are in the order in which they are written, which makes decoding faster."""

    v: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)] = VERSION
    ts: str | None = None
    sid: str
    seq: Seq
    feature: str | None = None  # these two are unused, but a line in which they are invalid is not regular
    agent: str | None = None
    data: ClassVar[Any]  # the event, if its type has a handler


def _line_type(kind: type[Event]) -> type[msgspec.Struct]:
    data = [("data", kind)] if kind.type in HANDLERS else []
    return msgspec.defstruct(kind.__name__, data, bases=(HotLine,), tag=kind.type, frozen=True, gc=False, kw_only=True)


_EVENT_TYPES = {_line_type(kind): kind for kind in _HOT_EVENTS}
_decode = msgspec.json.Decoder(Union[tuple(_EVENT_TYPES)]).decode  # noqa: UP007  # made from a list, not written out

HOT_HANDLERS: dict[type[msgspec.Struct], Handler | None] = {
    line: HANDLERS.get(kind.type) for line, kind in _EVENT_TYPES.items()
}


def read_hot_lines(lines: Iterator[bytes]) -> list[HotLine]:
    """The hot lines that come next. The first other line ends them and is consumed too."""
    hot_lines: list[HotLine] = []
    with suppress(*DECODE_ERRORS):
        hot_lines.extend(map(_decode, lines))  # keeps the decoded lines when the next one fails
    return hot_lines
