"""A conversation's past, from the log: the newest first, and no more of it than is wanted."""

from collections.abc import AsyncIterator
from typing import NamedTuple

from holdfast.core.codec import CODEC, Line, Unfit, parse
from holdfast.core.conversation import CUT_OFF
from holdfast.core.events import Event
from holdfast.core.events.base import NOTHING
from holdfast.core.events.conversation import (
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.history import TOTAL, Entry, History, Kind
from holdfast.store.base import Log

_WANTED = frozenset(
    kind.type for kind in (MessageRecorded, ToolCalled, ToolReturned, TurnStarted, TurnEnded, TurnInterrupted)
)
_NULL = bytes(NOTHING)
_AGENT = ("agent", "thought")
_SPEAKERS = {"user": Kind.USER, "agent": Kind.ASSISTANT}


class CutOff(NamedTuple):
    """A turn that was interrupted: what the user had asked, and the tools whose calls never came back."""

    request: str
    calls: tuple[str, ...]
    rebooted: bool = False


async def history_of(log: Log, conversation: str, budget: int = TOTAL) -> History:
    """What was said and done, within a budget, read from the log's end."""
    history = History(budget)
    async for entry in _entries(log, conversation):
        if not history.add(entry):
            break
    return history


async def cut_off_turn(log: Log, conversation: str) -> CutOff | None:
    """The newest turn, when it was interrupted. The request is older when that turn itself went on with another."""
    interrupted: set[str] = set()
    calls: list[str] = []
    cut = begun = rebooted = False
    async for event in _events(log, conversation):
        match event:
            case TurnEnded() if not cut and event.stop_reason not in CUT_OFF:
                return None
            case TurnEnded():
                cut = True
            case TurnInterrupted():
                cut, rebooted = True, rebooted or event.rebooted
            case TurnStarted():
                begun = True
            case ToolReturned() if event.status == "interrupted" and not begun:
                interrupted.add(event.call)
            case ToolCalled() if event.call in interrupted and not begun:
                calls.append(event.tool)
            case MessageRecorded() if event.speaker == "user":
                return CutOff(event.text, tuple(reversed(calls)), rebooted) if cut else None
    return None


async def was_heard(log: Log, conversation: str, turn: str) -> bool:
    """True when the agent did something in this turn: then it has the prompt."""
    async for event in _events(log, conversation):
        if isinstance(event, TurnStarted) and event.turn == turn:
            return False
        if isinstance(event, ToolCalled) or (isinstance(event, MessageRecorded) and event.speaker in _AGENT):
            return True
    return False


async def _entries(log: Log, conversation: str) -> AsyncIterator[Entry]:
    """Messages whole, though they were written in parts; each result with the name of its tool."""
    parts: list[MessageRecorded] = []
    results: dict[str, ToolReturned] = {}
    async for event in _events(log, conversation):
        if parts and not (isinstance(event, MessageRecorded) and event.more and event.speaker == parts[-1].speaker):
            yield _said(parts)
            parts = []
        match event:
            case MessageRecorded() if event.speaker in _SPEAKERS:
                parts.append(event)
            case ToolReturned():
                results[event.call] = event
            case ToolCalled():
                result = results.pop(event.call, None)
                if result is not None:
                    yield Entry(Kind.RESULT, _shown(result), event.tool)
                yield Entry(Kind.CALL, tool=event.tool)
    if parts:
        yield _said(parts)


def _said(newest_first: list[MessageRecorded]) -> Entry:
    return Entry(_SPEAKERS[newest_first[0].speaker], "".join(part.text for part in reversed(newest_first)))


def _shown(result: ToolReturned) -> str:
    told = [raw for raw in (bytes(result.output), bytes(result.content)) if raw != _NULL]
    if not told:
        return result.status
    shown = told[0].decode(errors="replace")
    return shown if result.status == "completed" else f"({result.status}) {shown}"


async def _events(log: Log, conversation: str) -> AsyncIterator[Event]:
    mark = f'"conversation":"{conversation}"'.encode()
    async for batch in log.read_back():
        for raw in reversed(batch.data.split(b"\n")):
            if mark not in raw:
                continue
            line = parse(raw)
            if isinstance(line, Line) and line.type in _WANTED:
                try:
                    event = CODEC.event(line)
                except Unfit as unfit:
                    event = unfit.without
                if event is not None and getattr(event, "conversation", None) == conversation:
                    yield event
