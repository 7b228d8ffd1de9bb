"""Runs and sessions."""

from typing import Any, ClassVar

from holdfast.core.events.base import Event

MAINTENANCE_COMMANDS = frozenset(
    {"merge", "push", "pr", "reset", "archive", "doctor", "salvage", "rewind", "adopt", "prune", "export", "import"}
)


class SessionStart(Event, frozen=True, kw_only=True):
    """A session started. `command: resume` continues the session before it; any other command starts fresh.

    `MAINTENANCE_COMMANDS` do not change the progress of the run. `feature` is the run's short name, `mode` its
    workflow. `machine` identifies the machine: the host's name may be another one's, and a boot id changes.
    """

    type: ClassVar[str] = "session.start"
    command: str = "run"
    feature: str | None = None
    branch: str | None = None
    mode: str | None = None
    host: str | None = None
    pid: int | None = None
    machine: str | None = None


class SessionEnd(Event, frozen=True, kw_only=True):
    """A session ended normally. If the newest session lacks this event, it was interrupted."""

    type: ClassVar[str] = "session.end"
    reason: str | None = None
    summary: str | None = None


class RunCreated(Event, frozen=True, kw_only=True):
    """A run was created. `remote` is the URL of the repository of a cluster run; `repo` is where it was submitted.

    `needs` are the labels that a worker must have to get it.
    """

    type: ClassVar[str] = "run.created"
    run_id: str
    goal: str
    workflow: str = "solo"
    repo: str | None = None
    base: str | None = None
    branch: str | None = None
    remote: str | None = None
    needs: list[str] = []


class SeedsCommitted(Event, frozen=True, kw_only=True):
    """The seed files are the first commit of the run's branch. Every task is based on it.

    `changed` counts the uncommitted files of the user's checkout in it (`--include-changes`), `seeds` the seed files;
    older versions recorded no counts, and had seed files only.
    """

    type: ClassVar[str] = "seeds.committed"
    commit: str
    branch: str
    changed: int = 0
    seeds: int | None = None


class ResumeChosen(Event, frozen=True, kw_only=True):
    """The choice of a person or a setting how to resume after an issue, and for which tasks.

    Recorded before it is carried out: after a crash the recorded choice is used, without asking again. `run.resumed`
    records what was done.
    """

    type: ClassVar[str] = "resume.chosen"
    choice: str
    tasks: list[str] = []
    instructions: str | None = None


class RunResumed(Event, frozen=True, kw_only=True):
    """What a resume found and decided: the counterpart of `run.created` for every later session.

    `last_stop` is why the previous session stopped: the reason it recorded (`interrupted` after Ctrl-C), or `killed`
    when it died without recording one. `decision` is the choice that was made (`fix` of older versions is `retry`).
    `restarted` tasks begin again on a new branch with a new agent; `salvaged` are the refs that have their old work.
    `instructions` are a person's instructions for the agents.
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
    """The settings of the run from now on: agents and limits. Later sessions use them too."""

    type: ClassVar[str] = "settings.chosen"
    settings: dict[str, Any] = {}


class RunMoved(Event, frozen=True, kw_only=True):
    """The repository was moved to another path."""

    type: ClassVar[str] = "run.moved"
    repo: str


class RunArchived(Event, frozen=True, kw_only=True):
    """The run's branches and worktrees were deleted; the log stays. `salvaged` are refs of work that was only there."""

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
