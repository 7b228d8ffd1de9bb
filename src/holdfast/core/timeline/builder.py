"""Builds the picture of a run from its log, piece by piece: a longer log costs only what was added.

It shows what happened, also what a rewind abandoned later: that was work, and it was paid for.
"""

import msgspec

from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.state import RunState
from holdfast.core.text.moment import parse_moment
from holdfast.core.timeline.canvas import MAX_SPANS, Canvas, LaneKey
from holdfast.core.timeline.fitting import idle_periods, merge_close
from holdfast.core.timeline.handlers import HANDLERS
from holdfast.core.timeline.shapes import LaneKind, Timeline, TimelineLane

_MIN_LANE_SPANS = 6
_OWN_LINE, _TYPE = b'{"v":', b'"type":"'
_HEAD_BYTES = 300
_HANDLED = frozenset(name.encode() for name in (*HANDLERS, SessionStart.type, SessionEnd.type))


class TimelineBuilder:
    """Feed it the log, then ask for the picture; then feed it what was written since."""

    def __init__(self) -> None:
        self._canvas = Canvas()
        self._skipped: bytes | None = None  # the newest line, if its time is not known yet
        self._start: int | None = None

    @property
    def position(self) -> int:
        return self._canvas.position

    def feed(self, data: bytes, start: int) -> None:
        """Add complete lines that follow what was added before; `start` is the position of the first."""
        self._canvas.position = start
        for raw in data.split(b"\n")[:-1]:
            self._canvas.position += len(raw) + 1
            if _is_handled(raw):
                line = parse(raw)
                if isinstance(line, Line):
                    self._add(line)
            else:
                self._skipped = raw

    def _add(self, line: Line) -> None:
        if line.type == SessionStart.type:
            self._learn_time()
            self._canvas.end_session(None)
        self._skipped = None
        self._advance(line)
        try:
            event = CODEC.event(line)
        except InvalidEventData as error:
            event = error.partial_event
        if isinstance(event, SessionStart):
            self._canvas.begin_session(line.sid, event)
        elif isinstance(event, SessionEnd):
            self._canvas.end_session(event)
        elif event is not None and (handle := HANDLERS.get(line.type)) is not None:
            handle(self._canvas, event)

    def _learn_time(self) -> None:
        line = parse(self._skipped) if self._skipped is not None else None
        self._skipped = None
        if isinstance(line, Line):
            self._advance(line)

    def _advance(self, line: Line) -> None:
        seconds = parse_moment(line.ts)
        if seconds is not None:
            canvas = self._canvas
            canvas.now = max(canvas.now, int(seconds * 1000))
            self._start = canvas.now if self._start is None else self._start

    def picture(self, run_id: str, state: RunState, status: str, *, running: bool, now_ms: int) -> Timeline:
        """Return the picture as it is now. `state` is the fold of the same log; `running`: a process owns the run."""
        self._learn_time()
        canvas = self._canvas
        is_open = bool(canvas.sessions) and canvas.sessions[-1].end is None
        if is_open and not running:
            canvas.end_session(None)
        end = max(canvas.now, now_ms) if is_open and running else canvas.now
        start = self._start if self._start is not None else end
        names = self._lane_names()
        lanes = self._all_lanes(state, names)
        limit = max(_MIN_LANE_SPANS, MAX_SPANS // max(1, len(lanes)))
        shown = [_fit(lane, limit) for lane in lanes]
        deaths = [
            msgspec.structs.replace(death, lane=names.get(lane) if lane is not None else None)
            for death, lane in canvas.deaths
        ]
        return Timeline(
            run_id,
            canvas.position,
            status,
            start,
            end,
            running,
            list(canvas.sessions),
            shown,
            deaths,
            list(canvas.spent),
            idle_periods(canvas.sessions, start, end),
            limit,
            canvas.truncated or any(lane.hidden for lane in shown),
        )

    def _lane_names(self) -> dict[LaneKey, str]:
        """A phase and a task may have the same name: the name of a lane is its own."""
        tasks = {key.name for key in self._canvas.lanes if key.kind is LaneKind.TASK}
        return {
            key: f"{key.kind} {key.name}" if key.kind is not LaneKind.TASK and key.name in tasks else key.name
            for key in self._canvas.lanes
        }

    def _all_lanes(self, state: RunState, names: dict[LaneKey, str]) -> list[TimelineLane]:
        """The lanes in the order in which they began; then the tasks that have not, in the order of the plan."""
        begun = self._canvas.lanes
        found = [
            TimelineLane(names[key], key.kind, *_about(key, state), lane.spans, lane.marks, lane.hidden)
            for key, lane in begun.items()
        ]
        found.sort(key=lambda lane: (lane.kind is not LaneKind.RUN, _first_moment(lane)))
        tasks = [LaneKey(LaneKind.TASK, name) for name in state.tasks]
        waiting = [TimelineLane(key.name, key.kind, *_about(key, state)) for key in tasks if key not in begun]
        return found + waiting


def _about(key: LaneKey, state: RunState) -> tuple[str | None, str | None]:
    """The title and the status."""
    task = state.tasks.get(key.name) if key.kind is LaneKind.TASK else None
    if task is not None:
        return task.summary, str(task.status)
    phase = state.phases.get(key.name) if key.kind is LaneKind.PHASE else None
    return None, str(phase.status) if phase is not None else None


def _first_moment(lane: TimelineLane) -> int:
    return min((*(span.start for span in lane.spans[:1]), *(mark.at for mark in lane.marks[:1])), default=0)


def _fit(lane: TimelineLane, limit: int) -> TimelineLane:
    spans, hidden = merge_close(lane.spans, limit)
    return msgspec.structs.replace(lane, spans=spans, hidden=lane.hidden + hidden)


def _is_handled(raw: bytes) -> bool:
    """Whether the line may matter. Reads only the type of the lines that Holdfast wrote: most of a log is messages."""
    at = raw.find(_TYPE, 0, _HEAD_BYTES)
    if at < 0 or not raw.startswith(_OWN_LINE):
        return True
    return raw[at + len(_TYPE) : raw.find(b'"', at + len(_TYPE))] in _HANDLED
