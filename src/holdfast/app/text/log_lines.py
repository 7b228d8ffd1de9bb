"""A line of a log as one line of words: when, whom it is about, what happened, and in which colour that is told."""

from typing import NamedTuple

from holdfast.app.text.events import detail, is_bad, subject, told, tone
from holdfast.core.events import Event
from holdfast.core.log.codec import CODEC, Line, Unfit
from holdfast.core.state import RunState
from holdfast.engine.queries.logs import LogLine


class ToldLine(NamedTuple):
    time: str
    who: str
    words: str
    colour: str | None
    bad: bool
    detail: tuple[str, ...] = ()


def told_line(one: LogLine, state: RunState) -> ToldLine | None:
    """None of what only the machinery needs to know, and of what cannot be read."""
    event = _event(one)
    words = told(event) if event is not None else None
    if event is None or words is None or not isinstance(one.line, Line):
        return None
    time = (one.line.ts or "")[11:19]
    return ToldLine(time, subject(event, state), words, tone(event), is_bad(event), detail(event, state))


def _event(one: LogLine) -> Event | None:
    if not isinstance(one.line, Line):
        return None
    try:
        return CODEC.event(one.line)
    except Unfit as unfit:
        return unfit.without
