"""Before the agents work: worktrees are set up, and each check runs once on the files that the work starts from."""

from typing import ClassVar

from holdfast.core.events.base import Event


class WorktreeSetupStarted(Event, frozen=True, kw_only=True):
    """A setup command starts in the worktree of `task`, or in the run's own. Without its end it runs again."""

    type: ClassVar[str] = "worktree.setup.started"
    task: str | int | None = None
    command: str


class WorktreeSetupFinished(Event, frozen=True, kw_only=True):
    """`output` has the first and the last lines; `problem` says why the command failed."""

    type: ClassVar[str] = "worktree.setup.finished"
    task: str | int | None = None
    command: str
    passed: bool
    seconds: float = 0.0
    exit_code: int | None = None
    output: str = ""
    problem: str | None = None
    runtime: str | None = None  # `sandbox` or `container`, when it ran confined


class WorktreePrepared(Event, frozen=True, kw_only=True):
    """The setup of a worktree is complete: files of the checkout, then commands. Not repeated while `key` is the same.

    `copied` and `linked` are paths of the settings. `left_out` are those that were not, with the reason.
    """

    type: ClassVar[str] = "worktree.prepared"
    task: str | int | None = None
    key: str
    copied: list[str] = []
    linked: list[str] = []
    left_out: list[str] = []


class BaselineStarted(Event, frozen=True, kw_only=True):
    """The checks start on the untouched base, whose files are the git object `tree`."""

    type: ClassVar[str] = "baseline.started"
    tree: str
    checks: list[str] = []
    runtime: str | None = None


class BaselineCheckFinished(Event, frozen=True, kw_only=True):
    """A check ran on the untouched base. `key` is a hash of its command."""

    type: ClassVar[str] = "baseline.check.finished"
    key: str
    name: str
    passed: bool
    seconds: float = 0.0
    exit_code: int | None = None
    output: str = ""
    problem: str | None = None
    flaky: bool = False


class BaselineFinished(Event, frozen=True, kw_only=True):
    """All checks ran on the base. Those in `excused` failed there, so they do not gate tasks."""

    type: ClassVar[str] = "baseline.finished"
    tree: str
    checks: list[str] = []
    failed: list[str] = []
    excused: list[str] = []


FAMILY = (
    WorktreeSetupStarted,
    WorktreeSetupFinished,
    WorktreePrepared,
    BaselineStarted,
    BaselineCheckFinished,
    BaselineFinished,
)
