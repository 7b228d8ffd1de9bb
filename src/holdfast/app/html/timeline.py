"""The picture of a run as SVG: a lane for each task or phase, time across, sessions above, what it cost below.

It needs no script and no style attribute. Each mark is a link to its event on the page, with its text as a tooltip.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.app.html.escape import escape_text
from holdfast.app.text.screen import pluralize
from holdfast.core.summary.spending import cost_text
from holdfast.core.text.moment import format_countdown, format_moment
from holdfast.engine.queries.timeline import (
    LaneMark,
    LaneSpan,
    SpanKind,
    Timeline,
    TimelineLane,
)

_WIDTH, _LEFT, _RIGHT = 1060, 150, 12
_AXIS, _SESSIONS, _SPEND = 20, 18, 56
_IDLE_PX, _TICK_PX = 34.0, 110
_MIN_SPAN_PX = 1.5
_PITCHES = ((12, 26), (40, 18), (120, 10))  # up to so many lanes: the height of one
_SMALLEST_PITCH, _CROWDED_PX = 3, 900  # of more lanes: they share this height, as far as that goes
_LABEL_PX, _LABEL_WIDTH_PX = 11, 60
_NAME_CHARS = 20
_JUDGES = ("evaluator", "review")
_MINOR_MARKS = frozenset({"commit", "started", "completed", "verdict"})  # when good, not in a picture of many lanes
_MANY_LANES = 120
_DAY_MS = 86_400_000


class Place(NamedTuple):
    """The part of the picture for a period."""

    start: int
    end: int
    x: float
    width: float
    idle: bool


class TimeScale:
    """Time to pixels. Periods without a session are short: a night between two sessions does not hide the work."""

    def __init__(self, timeline: Timeline) -> None:
        pieces: list[tuple[int, int, bool]] = []
        at, end = timeline.start, max(timeline.end, timeline.start + 1)
        for period in timeline.idle:
            pieces += [(at, period.start, False), (period.start, period.end, True)]
            at = period.end
        pieces = [piece for piece in (*pieces, (at, end, False)) if piece[1] > piece[0]]
        busy = sum(stop - start for start, stop, idle in pieces if not idle) or 1
        room = _WIDTH - _LEFT - _RIGHT - _IDLE_PX * sum(idle for _, _, idle in pieces)
        self.places: list[Place] = []
        x = float(_LEFT)
        for start, stop, idle in pieces:
            width = _IDLE_PX if idle else room * (stop - start) / busy
            self.places.append(Place(start, stop, x, width, idle))
            x += width

    def x(self, time: int) -> float:
        place = next((place for place in self.places if time <= place.end), self.places[-1])
        share = (min(max(time, place.start), place.end) - place.start) / (place.end - place.start)
        return place.x + share * place.width

    def ticks(self) -> Iterator[tuple[float, int]]:
        for place in self.places:
            if not place.idle:
                count = max(1, int(place.width // _TICK_PX))
                for number in range(count):
                    share = number / count
                    yield place.x + share * place.width, int(place.start + share * (place.end - place.start))


def positions_of(timeline: Timeline) -> set[int]:
    """Return the positions that the picture links to."""
    spans = {span.position for lane in timeline.lanes for span in lane.spans}
    marks = {mark.position for lane in timeline.lanes for mark in lane.marks}
    sessions = {session.position for session in timeline.sessions}
    return spans | marks | sessions | {death.position for death in timeline.deaths}


def draw_timeline(timeline: Timeline) -> Iterator[str]:
    """Yield the section of the page; nothing for a run in which nothing happened yet."""
    if not timeline.sessions:
        return
    lanes = timeline.lanes
    crowded = max(_SMALLEST_PITCH, _CROWDED_PX // max(1, len(lanes)))
    pitch = next((height for most, height in _PITCHES if len(lanes) <= most), crowded)
    top = _AXIS + _SESSIONS + 8
    bottom = top + pitch * len(lanes)
    has_spent = any(point.tokens or point.dollars for point in timeline.spend)
    height = bottom + (14 + _SPEND if has_spent else 4)
    scale = TimeScale(timeline)
    work = [session for session in timeline.sessions if not session.upkeep]
    counts = ((len(lanes), "lane"), (len(work), "session"), (len(timeline.deaths), "death"))
    about = ", ".join(pluralize(count, name) for count, name in counts)
    yield "<section id=picture><h2>What ran when</h2><div class=picture>"
    yield f'<svg width="{_WIDTH}" height="{height}" role="img" aria-label="{about}">'
    yield from _axis(timeline, scale, bottom)
    yield from _sessions(timeline, scale, bottom)
    for index, lane in enumerate(lanes):
        yield from _lane(timeline, lane, scale, _Row(top + index * pitch, pitch, index, len(lanes)))
    yield from _deaths(timeline, scale, top, pitch)
    if has_spent:
        yield from _spending(timeline, scale, height)
    yield "</svg></div>"
    yield (
        "<p class=key><b class='k turn'></b>turn <b class='k judge'></b>review <b class='k check'></b>check "
        "<b class='k interrupted'></b>interrupted <b class='k failed'></b>failed · ✓ ✕ verdict · "
        "○ committed, or asked you · ◇ merged · ▷ continued by a new agent · "
        f"<span class=dead>✕ death</span>{_hidden(lanes)}</p></section>"
    )


class _Row(NamedTuple):
    y: float
    pitch: int
    number: int
    of: int

    @property
    def centre(self) -> float:
        return self.y + self.pitch / 2

    @property
    def has_name(self) -> bool:
        every = max(1, -(-_LABEL_PX // self.pitch))
        return self.number % every == 0


def _axis(timeline: Timeline, scale: TimeScale, bottom: float) -> Iterator[str]:
    is_long = timeline.end - timeline.start > _DAY_MS
    free = 0.0
    for x, time in scale.ticks():
        if x < free:
            continue
        free = x + _LABEL_WIDTH_PX
        moment = format_moment(time / 1000)
        text = f"{moment[5:10]} {moment[11:16]}" if is_long else moment[11:19]
        yield f'<path class=grid d="M{x:.1f} {_AXIS}V{bottom}"/><text class=tick x="{x + 3:.1f}" y="14">{text}</text>'
    for place in scale.places:
        if place.idle:
            text = _took(place.start, place.end)
            yield (
                f'<g><title>nothing ran for {text}</title><rect class=idle x="{place.x:.1f}" y="{_AXIS}" '
                f'width="{place.width:.1f}" height="{bottom - _AXIS}"/>'
                f'<text class=pause x="{place.x + place.width / 2:.1f}" y="{_AXIS + 12}">{_first_unit(text)}</text></g>'
            )


def _sessions(timeline: Timeline, scale: TimeScale, bottom: float) -> Iterator[str]:
    for session in timeline.sessions:
        end = session.end if session.end is not None else timeline.end
        x, until = scale.x(session.start), scale.x(end)
        text = f"{session.command or 'session'}, {_took(session.start, end)}: {session.reason_text or session.outcome}"
        kind = "upkeep" if session.upkeep else session.outcome
        box = f'<rect class="session {kind}" x="{x:.1f}" y="{_AXIS + 4}" width="{max(2, until - x):.1f}" height="9"/>'
        yield _link(session.position, text, box)
        if session.outcome == "killed" and not session.upkeep:
            yield f'<path class=killed d="M{until:.1f} {_AXIS}V{bottom}"/>'


def _lane(timeline: Timeline, lane: TimelineLane, scale: TimeScale, row: _Row) -> Iterator[str]:
    if row.number % 2 == 0 and row.pitch >= _PITCHES[1][1]:
        yield f'<rect class=band x="0" y="{row.y}" width="{_WIDTH}" height="{row.pitch}"/>'
    if row.has_name:
        name = lane.id if len(lane.id) <= _NAME_CHARS else f"{lane.id[: _NAME_CHARS - 1]}…"
        title = escape_text(f"{lane.id}: {lane.title}" if lane.title else lane.id)
        size = "" if row.pitch >= _LABEL_PX else " small"
        yield (
            f'<g><title>{title}</title><text class="lane {escape_text((lane.status or "").lower())}{size}" '
            f'x="{_LEFT - 8}" y="{row.centre + 4:.1f}">{escape_text(name)}</text></g>'
        )
    for span in lane.spans:
        yield _span(timeline, lane, span, scale, row)
    for mark in lane.marks:
        if row.of <= _MANY_LANES or mark.good is False or mark.kind not in _MINOR_MARKS:
            shape = _glyph(mark, scale.x(mark.at), row.centre, max(1.2, min(5.0, row.pitch * 0.26)))
            tone = "" if mark.good is None else " yes" if mark.good else " no"
            path = f'<path class="mark {escape_text(mark.kind)}{tone}" d="{shape}"/>'
            yield _link(mark.position, f"{lane.id}: {mark.label}", path)


def _span(timeline: Timeline, lane: TimelineLane, span: LaneSpan, scale: TimeScale, row: _Row) -> str:
    is_check = span.kind in (SpanKind.CHECK, SpanKind.SETUP)
    thick = max(1.2, row.pitch * (0.28 if is_check else 0.62))
    end = span.end if span.end is not None else timeline.end
    x = scale.x(span.start)
    width = max(_MIN_SPAN_PX, scale.x(end) - x)
    judge = " judge" if any(word in (span.role or "") for word in _JUDGES) else ""
    box = (
        f'<rect class="{span.kind} {span.outcome}{judge}" x="{x:.1f}" y="{row.centre - thick / 2:.1f}" '
        f'width="{width:.1f}" height="{thick:.1f}"/>'
    )
    many = f" ({span.count} of them)" if span.count > 1 else ""
    outcome = "" if span.outcome == "ok" else f", {span.outcome}"
    return _link(span.position, f"{lane.id}: {span.label}{many}, {_took(span.start, end)}{outcome}", box)


def _glyph(mark: LaneMark, x: float, y: float, r: float) -> str:
    def at(across: float, down: float) -> str:
        return f"{x + across * r:.1f} {y + down * r:.1f}"

    if mark.kind == "verdict" and mark.good:
        return f"M{at(-1, 0)}L{at(-0.3, 0.8)}L{at(1, -0.8)}"
    if mark.kind in ("verdict", "failed"):
        return f"M{at(-0.8, -0.8)}L{at(0.8, 0.8)}M{at(0.8, -0.8)}L{at(-0.8, 0.8)}"
    if mark.kind in ("merge", "completed"):
        return f"M{at(0, -1.2)}L{at(1.2, 0)}L{at(0, 1.2)}L{at(-1.2, 0)}z"
    if mark.kind == "resume":
        return f"M{at(-0.7, -1)}L{at(1, 0)}L{at(-0.7, 1)}z"
    return f"M{at(-1, 0)}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0"


def _deaths(timeline: Timeline, scale: TimeScale, top: float, pitch: int) -> Iterator[str]:
    rows = {lane.id: top + index * pitch + pitch / 2 for index, lane in enumerate(timeline.lanes)}
    for death in timeline.deaths:
        x, y = scale.x(death.at), rows.get(death.lane or "", _AXIS + 8.5)
        cross = f"M{x - 4:.1f} {y - 4:.1f}l8 8M{x + 4:.1f} {y - 4:.1f}l-8 8"
        yield _link(death.position, f"{death.what} died: {death.text}", f'<path class=death d="{cross}"/>')


def _spending(timeline: Timeline, scale: TimeScale, height: float) -> Iterator[str]:
    points = timeline.spend
    yield f'<path class=grid d="M{_LEFT} {height - 0.5}H{_WIDTH - _RIGHT}"/>'
    if not points:
        return
    newest = points[-1]
    has_dollars = bool(newest.dollars)
    most = (newest.dollars or 0.0) if has_dollars else max(1, newest.tokens)
    path = f"M{_LEFT} {height}"
    for point in points:
        share = ((point.dollars or 0.0) if has_dollars else point.tokens) / most
        path += f"H{scale.x(point.at):.1f}V{height - share * (_SPEND - 12):.1f}"
    path += f"H{scale.x(timeline.end):.1f}V{height}z"
    text = cost_text(newest.dollars, 0) if has_dollars else f"{newest.tokens:,} tok"
    yield f'<path class=spend d="{path}"/><text class=lane x="{_LEFT - 8}" y="{height - 4}">{text}</text>'


def _link(position: int, text: str, shape: str) -> str:
    return f'<a href="#p{position}"><title>{escape_text(text)}</title>{shape}</a>'


def _took(start: int, end: int) -> str:
    took = end - start
    return f"{took} ms" if took < 1000 else format_countdown(took / 1000)  # noqa: PLR2004 - a second


def _first_unit(text: str) -> str:
    return text.split(maxsplit=1)[0] if not text.endswith(" ms") else ""


def _hidden(lanes: Sequence[TimelineLane]) -> str:
    return " · steps that are too short to see are drawn together" if any(lane.hidden for lane in lanes) else ""
