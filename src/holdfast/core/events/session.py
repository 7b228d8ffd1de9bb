"""A run, and the sittings of the orchestrator on it."""

from typing import Any, ClassVar

from holdfast.core.events.base import Event

UPKEEP = frozenset({"merge", "push", "pr", "reset", "archive", "doctor", "salvage"})


class SessionStart(Event, frozen=True, kw_only=True):
    """A sitting began. `command: resume` continues the sitting before it; anything else starts afresh.

    Those of `UPKEEP` do not move the work itself: after them a run stands where it stood. `feature` is the run's short
    name, `mode` the workflow by which its work is done.
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


class SeedsCommitted(Event, frozen=True, kw_only=True):
    """The seed files are the first commit of the run's branch. Every task stands on it."""

    type: ClassVar[str] = "seeds.committed"
    commit: str
    branch: str


class ResumeChosen(Event, frozen=True, kw_only=True):
    """How a person, or a setting, wants the run to go on past what went wrong, and for which tasks.

    Recorded before anything is done about it: after a crash it is acted on, and nobody is asked again. What was done is
    `run.resumed`.
    """

    type: ClassVar[str] = "resume.chosen"
    choice: str
    tasks: list[str] = []
    instructions: str | None = None


class RunResumed(Event, frozen=True, kw_only=True):
    """What a resume found, and what was decided: the parallel of `run.created` for every later sitting.

    `last_stop` is why the session before it stopped: the reason it recorded (`interrupted` after Ctrl-C), or `killed`
    when it died without recording one. `decision` is the choice that was made (`fix` of older versions is `retry`).
    `restarted` tasks begin again on a new branch with a new agent; `salvaged` are the refs that have their old work.
    `instructions` are a person's own words on how to go on.
    """

    type: ClassVar[str] = "run.resumed"
    summary: str
    last_stop: str | None = None
    decision: str | None = None
    retried: list[str] = []
    skipped: list[str] = []
    pending: list[str] = []
    unwound: list[str] = []
    settled: list[str] = []
    reconciled: list[str] = []
    instructions: str | None = None
    restarted: list[str] = []
    salvaged: list[str] = []


class SettingsChosen(Event, frozen=True, kw_only=True):
    """With what the run works from here on: who does it, and within which bounds. Later sittings go on with it."""

    type: ClassVar[str] = "settings.chosen"
    settings: dict[str, Any] = {}


class RunMoved(Event, frozen=True, kw_only=True):
    """The repository was found at another place than before."""

    type: ClassVar[str] = "run.moved"
    repo: str


class RunArchived(Event, frozen=True, kw_only=True):
    """Its branches and worktrees were taken away, the log stays. `salvaged` are the refs of what was only there."""

    type: ClassVar[str] = "run.archived"
    salvaged: list[str] = []


FAMILY = (
    SessionStart,
    SessionEnd,
    RunCreated,
    SeedsCommitted,
    ResumeChosen,
    RunResumed,
    SettingsChosen,
    RunMoved,
    RunArchived,
)
