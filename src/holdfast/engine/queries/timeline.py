"""The pictures of runs over time: each question reads only what was written since the last."""

import asyncio
import time
from collections import OrderedDict

from holdfast.core.run_status import RunStatus
from holdfast.core.timeline.builder import TimelineBuilder
from holdfast.core.timeline.shapes import (
    LaneKind,
    LaneMark,
    LaneSpan,
    SpanKind,
    SpanOutcome,
    Timeline,
    TimelineDeath,
    TimelineLane,
    TimelineSession,
)
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView

__all__ = [
    "LaneKind",
    "LaneMark",
    "LaneSpan",
    "RunTimelines",
    "SpanKind",
    "SpanOutcome",
    "Timeline",
    "TimelineDeath",
    "TimelineLane",
    "TimelineSession",
]

_MAX_KEPT = 24  # runs


class _Known:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.inode = 0
        self.builder = TimelineBuilder()


class RunTimelines:
    """Keeps the pictures of the runs that were asked about last."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def picture(self, view: RunView) -> Timeline:
        """Return the picture of a run as it is now."""
        run_id = view.run_id
        known = self._known.setdefault(run_id, _Known())
        self._known.move_to_end(run_id)
        while len(self._known) > _MAX_KEPT:
            self._known.popitem(last=False)
        async with known.lock:
            stamp = self._home.index.stamp(run_id)
            builder = known.builder
            if stamp.inode != known.inode or stamp.size < builder.position:
                builder, known.inode = TimelineBuilder(), stamp.inode
            known.builder = TimelineBuilder()  # if interrupted, it is read anew
            async for batch in self._home.store.log(run_id).read(builder.position):
                builder.feed(batch.data, batch.start)
                await asyncio.sleep(0)  # a long log does not keep others waiting
            known.builder = builder
            running = view.status == RunStatus.RUNNING
            return builder.picture(
                run_id, view.state, str(view.status), running=running, now_ms=int(time.time() * 1000)
            )
