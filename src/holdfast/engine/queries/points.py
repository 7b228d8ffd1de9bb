"""The points that a run can go back to: all of them, or the one that a person named."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec

from holdfast.core.events.rewind import RunRewound
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.point_scan import (
    RUN_START,
    Abandoned,
    AbandonedScan,
    Point,
    PointKind,
    PointScan,
    Seen,
    events_back,
)
from holdfast.engine.workspace.repository import open_repository
from holdfast.git.repository import Repository
from holdfast.git.snapshot import changed_files
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.store.base import Log, Position
from holdfast.store.live_log import LiveLog

__all__ = [
    "Abandoned",
    "Point",
    "PointKind",
    "PointSearch",
    "list_points",
    "newest_point",
    "points_back",
    "was_rewound_since",
]

_BACK = re.compile(r"-(\d{1,9})")
_EVENT = re.compile(r"(?P<sid>[0-9a-zA-Z]+):(?P<seq>\d{1,15})|@(?P<position>\d{1,18})")
_MAX_NAMED = 8  # points that a refusal names


async def list_points(home: Home, run_id: str) -> list[Point]:
    """Return the points of a run, the newest first, each with its label and the files that its turn changed."""
    state = (await view_run(home, run_id)).state
    points = _labelled([point async for point in points_back(home.store.log(run_id), state)])
    if not any(point.commit for point in points):
        return points
    repository = await open_repository(home, state.run, run_id)
    before: dict[str | None, str | None] = {
        branch.task: branch.base for branch in state.branches.values() if branch.task is not None
    }
    found: list[Point] = []
    for point in reversed(points):
        old, files = before.get(point.task), tuple[str, ...]()
        if point.commit is not None:
            if old is not None and await _exist(repository, old, point.commit):
                files = tuple(await changed_files(repository, old, point.commit))
            before[point.task] = point.commit
        found.append(msgspec.structs.replace(point, files=files))
    return found[::-1]


async def _exist(repository: Repository, *commits: str) -> bool:
    return None not in [await repository.commit_of(commit) for commit in commits]


async def points_back(log: Log, state: RunState) -> AsyncIterator[Point]:
    """Yield the points of the live log, the newest first. `state` is the state at its end."""
    async for point in _points(LiveLog(log, state.rewinds), PointScan(state), lambda _: None):
        yield point


async def _points(log: Log, scan: PointScan, observe: Callable[[Seen], None]) -> AsyncIterator[Point]:
    async for seen in events_back(log):
        observe(seen)
        for point in scan.feed(seen):
            yield point
    for point in scan.finish():
        yield point


async def newest_point(log: Log, state: RunState) -> Point | None:
    async for point in points_back(log, state):
        return point
    return None


async def was_rewound_since(log: Log, position: Position) -> bool:
    """Whether a rewind of any kind follows a position of the log. Reads no more than what follows it."""
    async for seen in events_back(log):
        if seen.start < position:
            return False
        if isinstance(seen.event, RunRewound):
            return True
    return False


class PointSearch:
    """Looks for one point in a single pass over the log, and keeps what lies after it."""

    def __init__(self, log: Log, state: RunState, folder: str = "") -> None:
        """`folder` is the run's: what agents did outside it is listed."""
        self._run_id = state.run.run_id if state.run is not None else "RUN"
        self._log = LiveLog(log, state.rewinds)
        self._scan = PointScan(state)
        self._abandoned = AbandonedScan(folder)

    def _points(self) -> AsyncIterator[Point]:
        return _points(self._log, self._scan, self._abandoned.feed)

    def abandoned_after(self, position: Position) -> Abandoned:
        """Return what lies after a point that this search found."""
        return self._abandoned.after(position)

    async def find(self, to: str, task: str | None = None) -> Point:
        """Return the point that a person named: `-N`, a turn, a checkpoint, or an event (the point at or before it).

        A name that fits several points is refused, with the names of each.
        """
        back, event = _BACK.fullmatch(to), _EVENT.fullmatch(to)
        if back is not None:
            return await self._find_back(int(back[1]), task)
        if event is not None:
            return await self._find_before(await self._event_position(event, to), to, task)
        known: list[Point] = []
        async for point in self._points():
            if task is None or point.task in (None, task):
                known.append(point)
                if to in (point.name, point.turn) and point.kind is PointKind.TURN:
                    return point
        matching = [point for point in known if to in _names_of(point)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            named = ", ".join(point.label for point in _labelled(known) if to in _names_of(point))
            raise BadInput(f"{to!r} could be any of {named}")
        raise self._unknown_point(to, known)

    async def last_rewind(self) -> RunRewound:
        """Return the newest rewind that was not undone."""
        async for seen in events_back(self._log):
            self._abandoned.feed(seen)
            if isinstance(seen.event, RunRewound):
                return seen.event
        raise NothingToDo("the run was never rewound, so there is nothing to undo")

    async def _find_back(self, count: int, task: str | None) -> Point:
        """`-1` is the newest point before the newest turn."""
        async for point in self._points():
            if self._scan.turns_after(point, task) >= count and (task is None or point.task in (None, task)):
                return point
        missing = "no turn" if count <= 1 else f"fewer than {count} turns"
        raise NothingToDo(
            f"the run has {missing} of a worker that could be taken back; "
            f"`holdfast show {self._run_id} --points` lists the points"
        )

    async def _find_before(self, position: Position, to: str, task: str | None) -> Point:
        known: list[Point] = []
        async for point in self._points():
            known.append(point)
            if point.position <= position and (task is None or point.task in (None, task)):
                return point
        raise self._unknown_point(to, known)

    async def _event_position(self, event: re.Match[str], to: str) -> Position:
        if event["position"] is not None:
            return int(event["position"])
        sid, seq = event["sid"], int(event["seq"])
        async for batch in self._log.read_backwards():
            end = batch.end
            for raw in reversed(batch.data.split(b"\n")[:-1]):
                if _identity(raw) == (sid, seq):
                    return end
                end -= len(raw) + 1
        command = f"holdfast logs {self._run_id} --json"
        raise BadInput(f"the log has no event {to!r}; `{command}` shows the session and number of each")

    def _unknown_point(self, to: str, known: Sequence[Point]) -> BadInput:
        shown = ", ".join(point.label for point in _labelled(known)[:_MAX_NAMED]) or "none"
        return BadInput(
            f"there is no point {to!r}; the newest are {shown}. `holdfast show {self._run_id} --points` lists all"
        )


def _names_of(point: Point) -> tuple[str | None, ...]:
    """All names of a point but the one that no other point has."""
    match point.kind:
        case PointKind.TURN:
            short = point.short_name
            return (short, f"{point.task}/{short}", f"{point.conversation}/{short}", point.name, point.turn)
        case PointKind.START:
            return (point.name, RUN_START)
        case _:
            return (point.name,)


def _labelled(points: Sequence[Point]) -> list[Point]:
    """Give each point the shortest of its names that no other one has."""
    counts = Counter(name for point in points for name in {*_names_of(point)})
    return [msgspec.structs.replace(point, label=_label_of(point, counts)) for point in points]


def _label_of(point: Point, counts: Counter[str | None]) -> str:
    names: Iterable[str | None] = _names_of(point)
    return next((name for name in names if name is not None and counts[name] == 1), f"@{point.position}")


class _Head(msgspec.Struct):
    sid: str
    seq: int


def _identity(raw: bytes) -> tuple[str, int] | None:
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except DECODE_ERRORS:
        return None
    return head.sid, head.seq
