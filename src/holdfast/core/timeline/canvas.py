"""What a picture of a run is drawn on, while its log is read."""

from typing import NamedTuple

from holdfast.core.end_reason import end_reason_text
from holdfast.core.events.session import MAINTENANCE_COMMANDS, SessionEnd, SessionStart
from holdfast.core.timeline.fitting import merge_close
from holdfast.core.timeline.shapes import (
    LaneKind,
    LaneMark,
    LaneSpan,
    SpanKind,
    SpanOutcome,
    SpendPoint,
    TimelineDeath,
    TimelineLane,
    TimelineSession,
)

MAX_SPANS = 4_000  # of all lanes
_MAX_MARKS = 2_000  # of one lane
_MAX_SPEND_POINTS = 400
_MAX_DEATHS = 1_000
_MAX_SESSIONS = 1_000
KILLED = "killed"


class LaneKey(NamedTuple):
    kind: LaneKind
    name: str


RUN_LANE = LaneKey(LaneKind.RUN, "run")


class Speaker(NamedTuple):
    """Who speaks in a conversation."""

    lane: LaneKey
    role: str | None
    agent: str | None


class Canvas:
    """Lanes, sessions, deaths and what was spent, up to a moment. Its memory is bounded."""

    def __init__(self) -> None:
        self.position = 0
        self.now = 0  # ms
        self.speakers: dict[str, Speaker] = {}  # by conversation
        self.branches: dict[str, LaneKey] = {}
        self.agents: dict[str, LaneKey] = {}  # alive, by name
        self.attached: set[str] = set()  # conversations that had an agent
        self.lanes: dict[LaneKey, TimelineLane] = {}
        self.sessions: list[TimelineSession] = []
        self.deaths: list[tuple[TimelineDeath, LaneKey | None]] = []
        self.spent: list[SpendPoint] = []
        self.truncated = False
        self._open: dict[tuple[str, str], LaneSpan] = {}
        self._tokens = 0
        self._dollars: float | None = None

    def begin(self, name: tuple[str, str], lane: LaneKey, kind: SpanKind, label: str, who: Speaker | None) -> None:
        """Begin a span. Of an earlier one with this name nothing more was heard."""
        self.finish(name, SpanOutcome.INTERRUPTED)
        role, agent = (who.role, who.agent) if who is not None else (None, None)
        span = LaneSpan(kind, self.now, None, role, agent, label, SpanOutcome.OPEN, 1, self.position)
        self._open[name] = span
        spans = self.lane(lane).spans
        spans.append(span)
        if len(spans) > 2 * MAX_SPANS:
            self._shorten(self.lane(lane))

    def finish(self, name: tuple[str, str], outcome: SpanOutcome, label: str | None = None) -> None:
        span = self._open.pop(name, None)
        if span is not None:
            span.end, span.outcome, span.label = self.now, outcome, label or span.label

    def mark(self, lane: LaneKey, kind: str, label: str, *, good: bool | None = None) -> None:
        found = self.lane(lane)
        found.marks.append(LaneMark(kind, self.now, label, good, self.position))
        if len(found.marks) > _MAX_MARKS:
            del found.marks[: _MAX_MARKS // 2]
            found.hidden += _MAX_MARKS // 2

    def add_death(self, what: str, text: str, lane: LaneKey | None) -> None:
        self.deaths.append((TimelineDeath(self.now, what, text, self.position, None), lane))
        if len(self.deaths) > _MAX_DEATHS:
            del self.deaths[0]
            self.truncated = True

    def spend(self, tokens: int, dollars: float | None) -> None:
        self._tokens += tokens
        self._dollars = (self._dollars or 0.0) + dollars if dollars is not None else self._dollars
        self.spent.append(SpendPoint(self.now, self._tokens, self._dollars))
        if len(self.spent) > 2 * _MAX_SPEND_POINTS:  # each has the sum: every second one says enough
            del self.spent[1:-1:2]

    def lane(self, key: LaneKey) -> TimelineLane:
        found = self.lanes.get(key)
        if found is None:
            found = self.lanes[key] = TimelineLane(key.name, key.kind, spans=[], marks=[])
        return found

    def lane_of(self, conversation: str) -> LaneKey:
        speaker = self.speakers.get(conversation)
        return speaker.lane if speaker is not None else RUN_LANE

    def _shorten(self, lane: TimelineLane) -> None:
        lane.spans, hidden = merge_close(lane.spans, MAX_SPANS)
        lane.hidden += hidden

    # sessions

    def begin_session(self, sid: str, event: SessionStart) -> None:
        upkeep = event.command in MAINTENANCE_COMMANDS
        new = TimelineSession(sid, event.command, self.now, None, "running", None, upkeep, self.position)
        self.sessions.append(new)
        if len(self.sessions) > _MAX_SESSIONS:
            del self.sessions[0]
            self.truncated = True

    def end_session(self, event: SessionEnd | None) -> None:
        """End the newest session, and what is open in it; without an event, at its last sign of life.

        A session can be taken for killed while its end is being written: the event, when it is read, says better.
        """
        newest = self.sessions[-1] if self.sessions else None
        if newest is not None and event is not None:
            if newest.outcome == KILLED and not newest.upkeep:
                self.deaths.pop()
            newest.end, newest.outcome = self.now, "ended"
            newest.reason_text = end_reason_text(event.reason) if event.reason else None
        elif newest is not None and newest.end is None:
            newest.end, newest.outcome = self.now, KILLED
            if not newest.upkeep:
                self.add_death("runner", f"the session ({newest.command}) was killed", None)
        for name in tuple(self._open):
            self.finish(name, SpanOutcome.INTERRUPTED)
        self.agents.clear()
