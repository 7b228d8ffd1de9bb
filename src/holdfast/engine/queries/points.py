"""The points that a run can go back to, and what lies after each.

A point is a position of the log without an open turn or effect: after a turn, when its files are kept; at a checkpoint;
and where the run was created. Reads backwards, and no more than needed.
"""

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import MessageRecorded, ToolCalled, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended
from holdfast.core.events.rewind import RunForked, RunRewound
from holdfast.core.events.session import SessionEnd
from holdfast.core.log import chain
from holdfast.core.log.codec import CODEC, DECODE_ERRORS, InvalidEventData, Line, parse
from holdfast.core.state import RunState
from holdfast.core.text.cut import cut
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.workspace import repository_of
from holdfast.git.repository import Repository
from holdfast.git.snapshot import changed_files
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.store.base import Log, Position
from holdfast.store.live_log import LiveLog

_TYPES = frozenset(
    kind.type
    for kind in (
        *(Checkpoint, MessageRecorded, ToolCalled, TurnEnded, TurnInterrupted, TurnStarted),
        *(EffectDidNotHappen, EffectHappened, EffectIntended, RunForked, RunRewound, SessionEnd),
    )
)
_TURN = re.compile(r"turn-(?P<number>\d{1,9})(?:-(?P<conversation>[0-9a-f]+)-(?P<turn>[0-9a-f]+))?")
_BACK = re.compile(r"-(\d{1,9})")
_EVENT = re.compile(r"(?P<sid>[0-9a-zA-Z]+):(?P<seq>\d{1,15})|@(?P<position>\d{1,18})")
_MAX_MESSAGE_CHARS = 200
_START = "start"
_PUBLISHING = {"push": "pushed {}", "pull_request": "opened a pull request: {}", "merge.into": "merged into {}"}
_READING_KINDS = frozenset({"read", "search", "think", "switch_mode", "edit", "delete", "move"})


class Point(NamedTuple):
    """A point: `name` is what `--to` takes. `commit` is the snapshot of the task's files there, if there is one."""

    position: Position
    name: str
    kind: str  # turn, checkpoint or start
    time: str | None
    task: str | None = None
    turn: str | None = None
    conversation: str | None = None
    last_message: str | None = None
    commit: str | None = None


class _Seen(NamedTuple):
    """An event on the way back. `end` is where its append ends, `start` where its line begins."""

    event: Event
    line: Line
    start: Position
    end: Position


class Abandoned(NamedTuple):
    """What a rewind would leave behind, apart from files."""

    events: int = 0
    turns: int = 0
    published: tuple[str, ...] = ()  # pushes, pull requests and merges that are not taken back
    calls: tuple[str, ...] = ()  # tool calls that may have changed something outside the worktrees


class PointWithFiles(NamedTuple):
    """A point, and the files that differ from the task's point before it."""

    point: Point
    files: tuple[str, ...]


async def points_with_files(home: Home, run_id: str) -> list[PointWithFiles]:
    """Return the points of a run, the newest first, with the files that each turn changed."""
    state = (await view_run(home, run_id)).state
    points = [point async for point in points_back(home.store.log(run_id), state)]
    if not any(point.commit for point in points):
        return [PointWithFiles(point, ()) for point in points]
    repository = repository_of(state.run, run_id)
    before: dict[str | None, str | None] = {
        branch.task: branch.base for branch in state.branches.values() if branch.task is not None
    }
    found: list[PointWithFiles] = []
    for point in reversed(points):
        old, files = before.get(point.task), tuple[str, ...]()
        if point.commit is not None:
            if old is not None and await _exist(repository, old, point.commit):
                files = tuple(await changed_files(repository, old, point.commit))
            before[point.task] = point.commit
        found.append(PointWithFiles(point, files))
    return found[::-1]


async def _exist(repository: Repository, *commits: str) -> bool:
    return None not in [await repository.commit_of(commit) for commit in commits]


async def points_back(log: Log, state: RunState) -> AsyncIterator[Point]:
    """Yield the points of the live log, the newest first. `state` is the state at its end."""
    scan = _PointScan(state)
    async for seen in _events_back(LiveLog(log, state.rewinds)):
        for point in scan.feed(seen):
            yield point
    for point in scan.finish():
        yield point


async def find_point(log: Log, state: RunState, to: str, task: str | None = None) -> Point:
    """Return the point that a person named: `-N`, a turn, a checkpoint, or an event (the point at or before it)."""
    back, event = _BACK.fullmatch(to), _EVENT.fullmatch(to)
    if back is not None:
        return await _nth_back(log, state, int(back[1]), task)
    before = await _event_position(LiveLog(log, state.rewinds), event, to) if event is not None else None
    known: list[str] = []
    async for point in points_back(log, state):
        if task is not None and point.task not in (None, task):
            continue
        if before is not None and point.position <= before:
            return point
        if before is None and to in _names_of(point):
            return point
        known.append(point.name)
    shown = ", ".join(known[:8]) or "none"
    raise BadInput(f"there is no point {to!r}; the newest are {shown}. `holdfast show RUN --points` lists all")


async def _nth_back(log: Log, state: RunState, count: int, task: str | None) -> Point:
    """`-1` is the point before the newest turn."""
    turns = 0
    async for point in points_back(log, state):
        if task is not None and point.task not in (None, task):
            continue
        if point.kind == "checkpoint":
            continue
        if turns >= count:
            return point
        turns += 1
    raise NothingToDo(f"the run has no {count} turns that could be taken back")


def _names_of(point: Point) -> tuple[str | None, ...]:
    short = f"turn-{point.name.split('-')[1]}" if point.kind == "turn" else None
    return (point.name, point.turn, short)


async def last_rewind(log: Log, state: RunState) -> RunRewound:
    """Return the newest rewind that was not undone."""
    async for seen in _events_back(LiveLog(log, state.rewinds)):
        if isinstance(seen.event, RunRewound):
            return seen.event
    raise NothingToDo("the run was never rewound, so there is nothing to undo")


async def abandoned_by(log: Log, state: RunState, position: Position) -> Abandoned:
    """Return what lies after a position that a rewind does not take back."""
    events = turns = 0
    published: list[str] = []
    calls: list[str] = []
    effects: dict[str, EffectHappened] = {}
    async for seen in _events_back(LiveLog(log, state.rewinds), until=position):
        events += 1
        match seen.event:
            case TurnStarted():
                turns += 1
            case EffectHappened():
                effects[seen.event.effect] = seen.event
            case EffectIntended() if seen.event.kind in _PUBLISHING and seen.event.effect in effects:
                published.append(_published(seen.event, effects[seen.event.effect]))
            case ToolCalled() if seen.event.kind not in _READING_KINDS:
                calls.append(cut(" ".join(seen.event.tool.split()), _MAX_MESSAGE_CHARS))
    return Abandoned(events, turns, tuple(reversed(published)), tuple(reversed(calls)))


def _published(intended: EffectIntended, happened: EffectHappened) -> str:
    about = happened.result.get("url") or intended.arguments.get("target") or intended.arguments.get("remote") or ""
    return _PUBLISHING[intended.kind].format(about)


class _PointScan:
    """Finds points from the end of a log to its start."""

    def __init__(self, state: RunState) -> None:
        self._open = {c.turn.turn for c in state.conversations.values() if c.turn is not None} | set(state.effects)
        self._happened: dict[str, _Seen] = {}
        self._waiting: list[Point] = []  # for the message before them
        self._planned: Point | None = None  # the end of the oldest session so far: the first one created the run
        self._oldest: Position | None = None

    def feed(self, seen: _Seen) -> list[Point]:
        event, ready = seen.event, list[Point]()
        match event:
            case TurnEnded() | TurnInterrupted():
                self._open.add(event.turn or "")
            case TurnStarted():
                self._open.discard(event.turn)
                ready = self._release(None)
            case EffectHappened() | EffectDidNotHappen():
                self._happened[event.effect] = seen
                self._open.add(event.effect)
            case EffectIntended():
                self._open.discard(event.effect)
                ready = self._after_effect(event)
            case MessageRecorded() if event.speaker == "agent":
                ready = self._release(event.text)
            case Checkpoint() if event.label != "run-start" and not self._open:
                ready = self._release(None)
                self._waiting.append(Point(seen.end, event.label, "checkpoint", seen.line.ts, event.plan_step))
            case RunForked() if self._planned is not None:
                ready = [*self._release(None), self._planned._replace(name="fork")]
                self._planned = None
            case SessionEnd() if not self._open:
                self._planned = Point(seen.end, _START, _START, seen.line.ts)
        return ready

    def finish(self) -> list[Point]:
        return [*self._release(None), *([self._planned] if self._planned is not None else [])]

    def _after_effect(self, intended: EffectIntended) -> list[Point]:
        seen = self._happened.pop(intended.effect, None)
        name = _TURN.fullmatch(str(intended.arguments.get("name")))
        if intended.kind != "snapshot.take" or name is None or seen is None or self._open:
            return []
        if not isinstance(seen.event, EffectHappened):
            return []
        commit = seen.event.result.get("commit")
        task = str(intended.task) if intended.task is not None else None
        ready = self._release(None)
        self._waiting.append(
            Point(seen.end, name[0], "turn", seen.line.ts, task, name["turn"], name["conversation"], None, commit)
        )
        return ready

    def _release(self, message: str | None) -> list[Point]:
        text = cut(" ".join(message.split()), _MAX_MESSAGE_CHARS) if message is not None else None
        ready = [point._replace(last_message=text) for point in self._waiting]
        self._waiting = []
        return ready


async def _events_back(log: Log, *, until: Position = 0) -> AsyncIterator[_Seen]:
    """Yield the events that matter here, from the end of the log to a position."""
    append_end, imported = 0, False
    async for batch in log.read_backwards():
        end = batch.end
        for raw in reversed(batch.data.split(b"\n")[:-1]):
            start = end - len(raw) - 1
            if start < until:
                return
            kind = _type_of(raw)
            if not append_end or not chain.has_more_to_come(raw[-chain.TAIL_BYTES :]):
                append_end, imported = end, kind == RunForked.type  # a whole past was imported in one append
            until_here, end = end if imported else append_end, start
            line = parse(raw) if kind in _TYPES else None
            if isinstance(line, Line):
                with suppress(InvalidEventData):
                    event = CODEC.event(line)
                    if event is not None:
                        yield _Seen(event, line, start, until_here)
        if batch.start <= until:
            return


_TYPE = re.compile(rb'"type":"([a-z_.]+)"')


def _type_of(raw: bytes) -> str:
    found = _TYPE.search(raw)
    return found[1].decode() if found is not None else ""


async def _event_position(log: Log, event: re.Match[str], to: str) -> Position:
    if event["position"] is not None:
        return int(event["position"])
    sid, seq = event["sid"], int(event["seq"])
    async for batch in log.read_backwards():
        end = batch.end
        for raw in reversed(batch.data.split(b"\n")[:-1]):
            if _identity(raw) == (sid, seq):
                return end
            end -= len(raw) + 1
    raise BadInput(f"the log has no event {to!r}; `holdfast logs RUN --json` shows the session and number of each")


class _Head(msgspec.Struct):
    sid: str
    seq: int


def _identity(raw: bytes) -> tuple[str, int] | None:
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except DECODE_ERRORS:
        return None
    return head.sid, head.seq
