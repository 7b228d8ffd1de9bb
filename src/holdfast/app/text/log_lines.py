"""A log line as text: its time, its subject, what happened, and the colour."""

from typing import NamedTuple

from holdfast.app.text.event_colours import event_colour, is_error
from holdfast.app.text.events import describe_event, event_details, event_subject
from holdfast.core.events import Event
from holdfast.core.events.conversation import PermissionRequested
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.state import RunState
from holdfast.engine.queries.logs import LogLine


class EventLine(NamedTuple):
    time: str
    subject: str
    text: str
    colour: str | None
    is_error: bool
    detail: tuple[str, ...] = ()
    request: str | None = None  # the permission request that it shows


def describe_line(log_line: LogLine, state: RunState) -> EventLine | None:
    """Return None for internal events and for unreadable lines."""
    event = _decode_event(log_line)
    text = describe_event(event) if event is not None else None
    if event is None or text is None or not isinstance(log_line.line, Line):
        return None
    time = (log_line.line.ts or "")[11:19]
    request = event.request if isinstance(event, PermissionRequested) else None
    subject, colour, detail = event_subject(event, state), event_colour(event), event_details(event, state)
    return EventLine(time, subject, text, colour, is_error(event), detail, request)


def _decode_event(log_line: LogLine) -> Event | None:
    if not isinstance(log_line.line, Line):
        return None
    try:
        return CODEC.event(log_line.line)
    except InvalidEventData as error:
        return error.partial_event
