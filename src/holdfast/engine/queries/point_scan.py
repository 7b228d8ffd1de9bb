"""Finds the points of a run from the end of its log to the start, and what lies after a position.

A point is a position of the log without an open turn or effect: after a turn, when its files are kept; at a checkpoint;
where a session ended; where the run was created or forked. One pass over the log, and no more of it than is asked for.
"""

import os
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from holdfast.core.conversation.own_tools import is_report
from holdfast.core.conversation.tool_call import ToolCall, read_tool_call
from holdfast.core.decide.attribution import WORKER
from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import (
    MessageRecorded,
    ToolCalled,
    ToolDetailed,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended
from holdfast.core.events.rewind import RunForked, RunRewound
from holdfast.core.events.session import SessionEnd
from holdfast.core.log import chain
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.state import RunState
from holdfast.core.text.cut import cut
from holdfast.core.work.names import short_point_name, worktree_names
from holdfast.store.base import Log, Position

RUN_START = "run-start"  # the checkpoint of a run's creation

_TYPES = frozenset(
    kind.type
    for kind in (
        *(Checkpoint, MessageRecorded, ToolCalled, ToolDetailed, TurnEnded, TurnInterrupted, TurnStarted),
        *(EffectDidNotHappen, EffectHappened, EffectIntended, RunForked, RunRewound, SessionEnd),
    )
)
_TURN = re.compile(r"turn-(?P<number>\d{1,9})-(?P<conversation>[0-9a-f]+)-(?P<turn>[0-9a-f]+)")
_TYPE = re.compile(rb'"type":"([a-z_.]+)"')
_ANY_RUN = "[^/]+-[0-9a-z]{6}"
_MAX_TEXT_CHARS = 200
_PUSH = "push"
_PUBLISHING = {_PUSH: "pushed {}", "pull_request": "opened a pull request: {}", "merge.into": "merged into {}"}
_READING_KINDS = frozenset({"read", "search", "think", "switch_mode"})
_FILE_KINDS = frozenset({"edit", "delete", "move"})


class PointKind(StrEnum):
    TURN = "turn"
    CHECKPOINT = "checkpoint"
    END = "end"  # of a session, when more than a turn is behind it
    FORK = "fork"  # where this run was forked from its parent
    START = "start"


class Point(msgspec.Struct, frozen=True):
    """A point. `label` is the shortest text that names it alone, once all points are known; `name` never changes.

    `commit` is the snapshot of the task's files there, if there is one. `files` are those that differ from the task's
    point before it.
    """

    position: Position
    name: str
    kind: PointKind
    time: str | None
    task: str | None = None
    turn: str | None = None
    conversation: str | None = None
    last_message: str | None = None
    commit: str | None = None
    label: str = ""
    files: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return short_point_name(self.name) if self.kind is PointKind.TURN else self.name


class Abandoned(msgspec.Struct, frozen=True):
    """What a rewind would leave behind, apart from files."""

    events: int = 0
    turns: int = 0
    published: tuple[str, ...] = ()  # pushes, pull requests and merges that are not taken back
    calls: tuple[str, ...] = ()  # tool calls that may have changed something outside the worktrees


class Seen(NamedTuple):
    """An event on the way back. `end` is where its append ends, `start` where its line begins.

    Without an event, it is where the planning of a forked run ended.
    """

    event: Event | None
    line: Line
    start: Position
    end: Position


class PointScan:
    """Finds points from the end of a log to its start."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._first_sid = next(iter(state.sessions), None)
        self._sessions = {sid: number for number, sid in enumerate(state.sessions, 1)}
        self._open = {c.turn.turn for c in state.conversations.values() if c.turn is not None} | set(state.effects)
        self._happened: dict[str, Seen] = {}
        self._waiting: list[Point] = []  # for the message before them
        self._turns = Counter[str | None]()  # by task
        self._turns_after: dict[Position, Counter[str | None]] = {}
        self._session_end: Point | None = None  # no point yet: nothing but a turn may be behind it
        self._start: Point | None = None
        self._run_start: Point | None = None

    def feed(self, seen: Seen) -> list[Point]:
        event, ready = seen.event, list[Point]()
        match event:
            case None:
                self._start = self._point(seen, "start", PointKind.START)
            case TurnEnded() | TurnInterrupted():
                self._open.add(event.turn or "")
            case TurnStarted():
                self._open.discard(event.turn)
                self._count_turn(event)
                ready = self._release(None)
            case EffectHappened() | EffectDidNotHappen():
                self._happened[event.effect] = seen
                self._open.add(event.effect)
            case EffectIntended():
                self._open.discard(event.effect)
                self._after_effect(event)
            case MessageRecorded() if event.speaker == "agent":
                ready = self._release(event.text)
            case Checkpoint() if not self._open:
                self._checkpoint(seen, event)
            case RunForked() if not self._open:
                ready = self._forked(seen)
            case SessionEnd() if not self._open:
                self._ended(seen)
        return ready

    def finish(self) -> list[Point]:
        start = self._start or self._run_start
        return [*self._release(None), *([start] if start is not None else [])]

    def _point(self, seen: Seen, name: str, kind: PointKind, task: str | None = None) -> Point:
        self._turns_after[seen.end] = Counter(self._turns)
        return Point(seen.end, name, kind, seen.line.ts, task)

    def turns_after(self, point: Point, task: str | None) -> int:
        """How many turns (of a task) started after a point that was found."""
        turns = self._turns_after[point.position]
        return turns[task] if task is not None else turns.total()

    def _count_turn(self, event: TurnStarted) -> None:
        """Count the turns after which files are kept: those of workers."""
        conversation = self._state.conversations.get(event.conversation)
        if conversation is not None and conversation.role == WORKER:
            self._turns[conversation.task] += 1

    def _forked(self, seen: Seen) -> list[Point]:
        """The end of the session that forked it is not where the run was planned."""
        self._start = self._session_end = None
        return [*self._release(None), self._point(seen, "fork", PointKind.FORK)]

    def _checkpoint(self, seen: Seen, event: Checkpoint) -> None:
        if event.label == RUN_START:
            self._run_start = self._point(seen, "start", PointKind.START)
            return
        self._keep_session_end()
        task = event.plan_step if event.plan_step in self._state.tasks else None
        self._waiting.append(self._point(seen, event.label, PointKind.CHECKPOINT, task))

    def _ended(self, seen: Seen) -> None:
        """A session's end is a point of its own when more than a turn is behind it: commits, merges."""
        self._session_end = None
        session = self._state.sessions.get(seen.line.sid)
        if seen.line.sid == self._first_sid:
            self._start = self._point(seen, "start", PointKind.START)
        elif session is not None and not session.upkeep:
            self._session_end = self._point(seen, f"session-{self._sessions[session.sid]}", PointKind.END)

    def _keep_session_end(self) -> None:
        """The end of the session is a point: something is behind it."""
        if self._session_end is not None:
            self._waiting.append(self._session_end)
            self._session_end = None

    def _after_effect(self, intended: EffectIntended) -> None:
        seen = self._happened.pop(intended.effect, None)
        name = _TURN.fullmatch(str(intended.arguments.get("name")))
        if intended.kind != "snapshot.take" or name is None:
            self._keep_session_end()
            return
        if seen is None or self._open or not isinstance(seen.event, EffectHappened):
            return
        self._session_end = None
        commit = seen.event.result.get("commit")
        task = str(intended.task) if intended.task is not None else None
        point = self._point(seen, name[0], PointKind.TURN, task)
        self._waiting.append(
            msgspec.structs.replace(point, turn=name["turn"], conversation=name["conversation"], commit=commit)
        )

    def _release(self, message: str | None) -> list[Point]:
        text = _one_line(message) if message is not None else None
        ready = [msgspec.structs.replace(point, last_message=text) for point in self._waiting]
        self._waiting = []
        return ready


class AbandonedScan:
    """Collects what a rewind leaves behind, from the end of a log back."""

    def __init__(self, folder: str) -> None:
        """`folder` has the worktrees of the run on this machine; elsewhere they are in another home."""
        self._run_id = os.path.basename(folder)
        self._inside = _worktrees_of(re.escape(self._run_id))
        self._events: list[Position] = []
        self._turns: list[Position] = []
        self._published: list[tuple[Position, str]] = []
        self._calls: list[tuple[Position, str]] = []
        self._happened: dict[str, EffectHappened] = {}
        self._details: dict[tuple[str, str], ToolDetailed] = {}

    def feed(self, seen: Seen) -> None:
        self._events.append(seen.start)
        match seen.event:
            case TurnStarted():
                self._turns.append(seen.start)
            case EffectHappened():
                self._happened[seen.event.effect] = seen.event
            case EffectIntended() if seen.event.kind in _PUBLISHING and seen.event.effect in self._happened:
                text = _published(seen.event, self._happened[seen.event.effect], self._run_id)
                self._published.append((seen.start, text))
            case RunForked():  # before it is the past of another run, in the worktrees of that one
                self._inside = _worktrees_of(_ANY_RUN)
            case ToolDetailed():
                self._details.setdefault((seen.event.conversation, seen.event.call), seen.event)
            case ToolCalled():
                detailed = self._details.pop((seen.event.conversation, seen.event.call), None)
                outside = _outside_text(_tool_call(seen.event, detailed), self._inside)
                if outside is not None:
                    self._calls.append((seen.start, outside))

    def after(self, position: Position) -> Abandoned:
        """What was seen after a position."""

        def texts(found: list[tuple[Position, str]]) -> tuple[str, ...]:
            return tuple(text for start, text in reversed(found) if start >= position)

        return Abandoned(
            events=sum(start >= position for start in self._events),
            turns=sum(start >= position for start in self._turns),
            published=texts(self._published),
            calls=texts(self._calls),
        )


def _published(intended: EffectIntended, happened: EffectHappened, run_id: str) -> str:
    about = happened.result.get("url") or intended.arguments.get("target") or ""
    if intended.kind == _PUSH:
        task, remote = intended.arguments.get("task"), intended.arguments.get("remote", "")
        about = f"{worktree_names(run_id, task).branch} to {remote}"
    return _PUBLISHING[intended.kind].format(about)


def _tool_call(called: ToolCalled, detailed: ToolDetailed | None) -> ToolCall:
    """The call, as the agent described it last."""
    first, last = (_update_of(event) if event is not None else {} for event in (called, detailed))
    return read_tool_call(last, first)


def _update_of(event: ToolCalled | ToolDetailed) -> dict[str, Any]:
    return {
        "title": event.tool,
        "kind": event.kind,
        "rawInput": msgspec.json.decode(event.input),
        "locations": msgspec.json.decode(event.locations),
    }


def _worktrees_of(run_id: str) -> re.Pattern[str]:
    """Paths in the worktrees of a run, in the home of any machine that worked on it."""
    return re.compile(f".*/runs/{run_id}/(tasks/[^/]+|workspace)(/.*)?", re.DOTALL)


def _outside_text(call: ToolCall, inside: re.Pattern[str]) -> str | None:
    """What to call it, if it may have changed something outside the run's worktrees; else None."""
    if call.kind in _READING_KINDS or is_report(call):
        return None
    if call.kind not in _FILE_KINDS:
        return _one_line(call.command or call.title)
    outside = [path for path in call.paths if _is_outside(path, inside)]
    return _one_line(f"{call.title}: {', '.join(outside)}") if outside else None


def _is_outside(path: str, inside: re.Pattern[str]) -> bool:
    """A relative path is one of the agent's own worktree, unless it leads out."""
    found = os.path.normpath(path)
    return inside.fullmatch(found) is None if os.path.isabs(found) else found.startswith("..")


def _one_line(text: str) -> str:
    return cut(" ".join(text.split()), _MAX_TEXT_CHARS)


async def events_back(log: Log) -> AsyncIterator[Seen]:
    """Yield the events that matter here, from the end of the log to its start."""
    append_end, imported, unplanned = 0, False, -1
    async for batch in log.read_backwards():
        end = batch.end
        for raw in reversed(batch.data.split(b"\n")[:-1]):
            start = end - len(raw) - 1
            kind = _type_of(raw)
            if not append_end or not chain.has_more_to_come(raw[-chain.TAIL_BYTES :]):
                append_end, imported = end, kind == RunForked.type  # a whole past was imported in one append
            until_here, end = end if imported else append_end, start
            line = parse(raw) if kind in _TYPES or unplanned == 0 else None
            if not isinstance(line, Line):
                unplanned -= 1
                continue
            if unplanned == 0:
                yield Seen(None, line, until_here, until_here)
            unplanned -= 1
            with suppress(InvalidEventData):
                event = CODEC.event(line)
                if isinstance(event, RunForked) and event.after_planning is not None:
                    unplanned = event.after_planning
                if event is not None and kind in _TYPES:
                    yield Seen(event, line, start, until_here)


def _type_of(raw: bytes) -> str:
    found = _TYPE.search(raw)
    return found[1].decode() if found is not None else ""
