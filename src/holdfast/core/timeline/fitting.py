"""Makes a picture fit: spans too close to each other become one, and periods without a session are found."""

from collections.abc import Sequence
from itertools import pairwise

from holdfast.core.timeline.shapes import IdlePeriod, LaneSpan, SpanOutcome, TimelineSession

MIN_IDLE_SHARE = 0.06  # of the time of all sessions; shorter periods are drawn as long as they were


def merge_close(spans: Sequence[LaneSpan], limit: int) -> tuple[list[LaneSpan], int]:
    """Return about `limit` spans, and how many are hidden in others. Those with the least time between them merge."""
    excess = len(spans) - limit
    if excess <= 0:
        return list(spans), 0
    gaps = {
        index: second.start - first.end
        for index, (first, second) in enumerate(pairwise(spans))
        if first.end is not None and second.end is not None
    }
    joined = set(sorted(gaps, key=gaps.__getitem__)[:excess])
    found: list[LaneSpan] = []
    for index, span in enumerate(spans):
        if index - 1 in joined:
            found[-1] = _join(found[-1], span)
        else:
            found.append(span)
    return found, len(joined)


def _join(first: LaneSpan, second: LaneSpan) -> LaneSpan:
    longer = first if (first.end or 0) - first.start >= (second.end or 0) - second.start else second
    return LaneSpan(
        longer.kind,
        first.start,
        max(first.end or first.start, second.end or second.start),
        longer.role,
        longer.agent,
        longer.label,
        first.outcome if first.outcome is second.outcome else SpanOutcome.MIXED,
        first.count + second.count,
        first.position,
    )


def idle_periods(sessions: Sequence[TimelineSession], start: int, end: int) -> list[IdlePeriod]:
    """Return the long periods in which nothing could work, as a night between two sessions."""
    working = sorted((session for session in sessions if not session.upkeep), key=lambda session: session.start)
    busy = sum((session.end if session.end is not None else end) - session.start for session in working)
    at, found, least = start, list[IdlePeriod](), MIN_IDLE_SHARE * max(1, busy)
    for session in working:
        if session.start - at > least:
            found.append(IdlePeriod(at, session.start))
        at = max(at, session.end if session.end is not None else end)
    if working and end - at > least:
        found.append(IdlePeriod(at, end))
    return found
