"""A run, and the sittings of the orchestrator on it."""

from typing import ClassVar

from holdfast.core.events.base import Event

UPKEEP = frozenset({"merge", "push", "pr", "reset", "archive", "doctor", "salvage"})


class SessionStart(Event, frozen=True, kw_only=True):
    """A sitting began. `command: resume` continues the sitting before it; anything else starts afresh.

    Those of `UPKEEP` do not move the work itself: after them a run stands where it stood.
    """

    type: ClassVar[str] = "session.start"
    command: str = "run"
    feature: str | None = None
    branch: str | None = None
    mode: str | None = None
    host: str | None = None
    pid: int | None = None


class SessionEnd(Event, frozen=True, kw_only=True):
    """A sitting ended of its own accord. A log whose newest sitting lacks this was interrupted."""

    type: ClassVar[str] = "session.end"
    reason: str | None = None
    summary: str | None = None


class RunCreated(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "run.created"
    run_id: str
    goal: str
    workflow: str = "solo"
    repo: str | None = None
    base: str | None = None
    branch: str | None = None


class RunMoved(Event, frozen=True, kw_only=True):
    """The repository was found at another place than before."""

    type: ClassVar[str] = "run.moved"
    repo: str


class RunArchived(Event, frozen=True, kw_only=True):
    """Its branches and worktrees were taken away, the log stays. `salvaged` are the refs of what was only there."""

    type: ClassVar[str] = "run.archived"
    salvaged: list[str] = []


FAMILY = (SessionStart, SessionEnd, RunCreated, RunMoved, RunArchived)
