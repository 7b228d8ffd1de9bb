"""What happens within a task, between its start and its end: cases, checks, verdicts, commits."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import NOTHING, Event


class CaseSubmitted(Event, frozen=True, kw_only=True):
    """The worker says that the task is done, and why. A later one takes its place."""

    type: ClassVar[str] = "case.submitted"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    case: msgspec.Raw = NOTHING


class ValidatorFinished(Event, frozen=True, kw_only=True):
    """`problem` is set when it could not be run to its end; `flaky` when it passed only the second time."""

    type: ClassVar[str] = "validator.finished"
    task_id: str | int = msgspec.field(name="taskId")
    name: str
    passed: bool
    seconds: float = 0.0
    exit_code: int | None = None
    output: str = ""
    problem: str | None = None
    flaky: bool = False


class ValidationFinished(Event, frozen=True, kw_only=True):
    """All of them were run. What failed goes back to the worker, and begins the next iteration."""

    type: ClassVar[str] = "validation.finished"
    task_id: str | int = msgspec.field(name="taskId")
    passed: bool
    failed: list[str] = []


class VerdictGiven(Event, frozen=True, kw_only=True):
    """The evaluator's word on a case. `synthetic` when it gave none, and one had to be made."""

    type: ClassVar[str] = "verdict.given"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    accept: bool
    category: str | None = None
    concern: str | None = None
    evidence: str | None = None
    next_step: str | None = None
    synthetic: bool = False


WORKTREE_LOST = "its worktree was deleted"  # why an iteration came to nothing


class IterationEnded(Event, frozen=True, kw_only=True):
    """The worker's turn was over, and nothing came of it that could be judged."""

    type: ClassVar[str] = "iteration.ended"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    reason: str


class TaskCommitted(Event, frozen=True, kw_only=True):
    """All that the task did is one commit on its branch; None when it changed nothing."""

    type: ClassVar[str] = "task.committed"
    task_id: str | int = msgspec.field(name="taskId")
    commit: str | None = None


class MergeConflicted(Event, frozen=True, kw_only=True):
    """The task's branch does not go into the run's as it is; its worktree holds these conflicts."""

    type: ClassVar[str] = "merge.conflicted"
    task_id: str | int = msgspec.field(name="taskId")
    files: list[str] = []


class TaskReopened(Event, frozen=True, kw_only=True):
    """It is to be done (again): a failed one is retried, a changed one done anew, a finished one asked for more."""

    type: ClassVar[str] = "task.reopened"
    task_id: str | int = msgspec.field(name="taskId")
    reason: str | None = None


class LearningsProposed(Event, frozen=True, kw_only=True):
    """What an agent thinks that later work should know; for the user to accept."""

    type: ClassVar[str] = "learnings.proposed"
    task_id: str | int = msgspec.field(name="taskId")
    learnings: list[str] = []


class MemoryLoaded(Event, frozen=True, kw_only=True):
    """Which channels went into a prompt: the size of each, whether it was cut, and a hash of its words."""

    type: ClassVar[str] = "memory.loaded"
    task_id: str | int | None = msgspec.field(name="taskId", default=None)
    role: str | None = None
    channels: msgspec.Raw = NOTHING


class ProgressReported(Event, frozen=True, kw_only=True):
    """A line from an agent about where it is, for whoever watches."""

    type: ClassVar[str] = "progress.reported"
    task_id: str | int | None = msgspec.field(name="taskId", default=None)
    text: str


class HookRan(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "hook.ran"
    hook: str
    command: str
    exit_code: int | None = None
    problem: str | None = None


FAMILY = (
    CaseSubmitted,
    ValidatorFinished,
    ValidationFinished,
    VerdictGiven,
    IterationEnded,
    TaskCommitted,
    MergeConflicted,
    TaskReopened,
    LearningsProposed,
    MemoryLoaded,
    ProgressReported,
    HookRan,
)
