"""Logs made by hand: a short word for a line, and the folds that a store makes of many."""

from typing import Any, NamedTuple

import msgspec

from holdfast.core.decide.analysis import Analysis, analyze, session_lineage, session_to_resume
from holdfast.core.events import Envelope, Event
from holdfast.core.fold.fold import Fold, SupersededLines
from holdfast.core.log.codec import encode
from holdfast.core.state import RunState

TS = "2026-02-14T10:00:00.000Z"


def entry(event: Event, seq: int = 0, sid: str = "s1", **head: Any) -> bytes:
    """One line, as Holdfast writes it."""
    return encode(Envelope(**{"ts": TS, **head}, sid=sid, seq=seq, type=event.type, data=event)) + b"\n"


def foreign(kind: str, seq: int = 0, sid: str = "s1", **rest: Any) -> bytes:
    """One line, as any other tool may write it: no more in it than is given."""
    return msgspec.json.encode({"sid": sid, "seq": seq, "type": kind, **rest}) + b"\n"


def session_log(*events: Event, sid: str = "s1", first: int = 0, **head: Any) -> bytes:
    """Events of one session, numbered without a gap."""
    return b"".join(entry(event, seq, sid, **head) for seq, event in enumerate(events, start=first))


class Row(NamedTuple):
    """A line of a table: what some events make of one field of the state."""

    fact: str
    events: tuple[Event, ...]
    field: str
    expected: Any


def row(fact: str, *events: Event, **expected: Any) -> Row:
    ((field, value),) = expected.items()
    return Row(fact, events, field, value)


def fold_once(data: bytes, state: RunState | None = None, **how: Any) -> Fold:
    fold = Fold(state, **how)
    fold.feed(data)
    return fold


def fold_all(data: bytes, *, only: frozenset[str] | None = None) -> RunState:
    """The state of a log; a second time without the lines that later ones replace, where there are such."""
    fold = fold_once(data, only_sessions=only)
    if not fold.repeated:
        return fold.state
    older = SupersededLines(fold.repeated)
    older.feed(data)
    return fold_once(data, only_sessions=only, skip_lines=older.lines).state


def analysis_of(data: bytes) -> Analysis:
    """The analysis of the session that a resume would take up, whatever else stands in the log."""
    state = fold_all(data)
    target = session_to_resume(state)
    if target is None:
        return analyze(state)
    members = session_lineage(state, target)
    return analyze(state if members == state.sessions.keys() else fold_all(data, only=members))


def size(state: RunState) -> int:
    return len(msgspec.json.encode(state))


def stored(state: RunState) -> RunState:
    """The state as it comes back out of a snapshot."""
    return msgspec.json.decode(msgspec.json.encode(state), type=RunState)
