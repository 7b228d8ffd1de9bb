"""The picture of a run as data: lanes with spans and marks, sessions, deaths, and what was spent. Times are in ms."""

from enum import StrEnum

import msgspec


class LaneKind(StrEnum):
    TASK = "task"
    PHASE = "phase"
    RUN = "run"


class SpanKind(StrEnum):
    TURN = "turn"
    CHECK = "check"
    SETUP = "setup"
    MERGE = "merge"


class SpanOutcome(StrEnum):
    """`mixed`: of several spans that are drawn as one."""

    OK = "ok"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    OPEN = "open"
    MIXED = "mixed"


class LaneSpan(msgspec.Struct):
    """Something that took time. `count` spans that were too close to each other to be drawn are one."""

    kind: SpanKind
    start: int
    end: int | None
    role: str | None
    agent: str | None
    label: str
    outcome: SpanOutcome
    count: int
    position: int


class LaneMark(msgspec.Struct, frozen=True):
    """A moment. `good` is null where there is nothing to praise or blame."""

    kind: str
    at: int
    label: str
    good: bool | None
    position: int


class TimelineLane(msgspec.Struct):
    """A task, a phase, or the run itself. `hidden` counts the spans and marks that are not listed one by one."""

    id: str
    kind: LaneKind
    title: str | None = None
    status: str | None = None
    spans: list[LaneSpan] = []
    marks: list[LaneMark] = []
    hidden: int = 0


class TimelineSession(msgspec.Struct):
    """`outcome`: ended, killed, or running. `upkeep`: a command that did not continue the work, such as a merge."""

    sid: str
    command: str | None
    start: int
    end: int | None
    outcome: str
    reason_text: str | None
    upkeep: bool
    position: int


class TimelineDeath(msgspec.Struct, frozen=True):
    """`what`: agent or runner."""

    at: int
    what: str
    text: str
    position: int
    lane: str | None


class SpendPoint(msgspec.Struct, frozen=True):
    """All that was spent until then; `dollars` is null while no agent reported a cost."""

    at: int
    tokens: int
    dollars: float | None


class IdlePeriod(msgspec.Struct, frozen=True):
    """A period without a session that is long enough to be drawn short."""

    start: int
    end: int


class Timeline(msgspec.Struct, frozen=True):
    """`position`: the end of the log that it was made from. `truncated`: something is not listed one by one."""

    run: str
    position: int
    status: str
    start: int
    end: int
    running: bool
    sessions: list[TimelineSession]
    lanes: list[TimelineLane]
    deaths: list[TimelineDeath]
    spend: list[SpendPoint]
    idle: list[IdlePeriod]
    span_limit: int
    truncated: bool
