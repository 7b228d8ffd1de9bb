"""A run, and the sittings of the orchestrator on it."""

from typing import ClassVar

from holdfast.core.events.base import Event


class SessionStart(Event, frozen=True, kw_only=True):
    """A sitting began. `command: resume` continues the sitting before it; anything else starts afresh."""

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


FAMILY = (SessionStart, SessionEnd, RunCreated)
