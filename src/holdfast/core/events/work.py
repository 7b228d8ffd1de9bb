"""Events inside a task, between its start and its end: cases, checks, verdicts, commits."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import JSON_NULL, Event


class CaseSubmitted(Event, frozen=True, kw_only=True):
    """The worker says that the task is done, and why. A later case replaces it."""

    type: ClassVar[str] = "case.submitted"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    case: msgspec.Raw = JSON_NULL


class ReportRefused(Event, frozen=True, kw_only=True):
    """An agent sent an invalid report. It got the error as the answer; the report had no other effect.

    `attempt` counts invalid reports of its conversation since the last valid one. `raw` is the call, cut when long.
    """

    type: ClassVar[str] = "report.refused"
    conversation: str | None = None
    tool: str
    attempt: int
    error: str
    raw: str = ""
    task_id: str | int | None = msgspec.field(name="taskId", default=None)
    iteration: int | None = None


class ValidatorFinished(Event, frozen=True, kw_only=True):
    """`problem` is set when the check could not run to its end; `flaky` when it passed only at the second attempt.

    `excused`: it failed on the untouched base too, so its failure does not count against the task.
    """

    type: ClassVar[str] = "validator.finished"
    task_id: str | int = msgspec.field(name="taskId")
    name: str
    passed: bool
    seconds: float = 0.0
    exit_code: int | None = None
    output: str = ""
    problem: str | None = None
    flaky: bool = False
    runtime: str | None = None  # `sandbox` or `container`, when it ran confined
    excused: bool = False


class ValidationStarted(Event, frozen=True, kw_only=True):
    """The task's files were captured as the git object `tree`, and the checks start on it.

    `head` was the commit at HEAD, `merging` the commit being merged, as when conflicts were resolved. Without a `tree`
    the capture failed: the problem of the worktree follows as a failed check.
    """

    type: ClassVar[str] = "validation.started"
    task_id: str | int = msgspec.field(name="taskId")
    tree: str | None = None
    head: str | None = None
    merging: str | None = None


class ValidationFinished(Event, frozen=True, kw_only=True):
    """All checks ran. Failed checks go back to the worker and start the next iteration.

    `tree` was checked, so it is what is evaluated and committed. `ran` counts the checks; None in older logs. The
    `excused` ones failed on the untouched base too, and do not count.
    """

    type: ClassVar[str] = "validation.finished"
    task_id: str | int = msgspec.field(name="taskId")
    passed: bool
    failed: list[str] = []
    tree: str | None = None
    ran: int | None = None
    excused: list[str] = []


class VerdictGiven(Event, frozen=True, kw_only=True):
    """The evaluator's verdict on a case. `synthetic`: Holdfast made it, because the evaluator gave none."""

    type: ClassVar[str] = "verdict.given"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    accept: bool
    category: str | None = None
    concern: str | None = None
    evidence: str | None = None
    next_step: str | None = None
    synthetic: bool = False


COMMIT_HOOK = "commit hook"  # the name of the check for the user's commit hooks
CHANGED_BY_HOOK, CHANGED_BY_MERGE, CHANGED_BY_OTHERS = (
    "hook",
    "merge",
    "moved",
)  # why a commit differs from the checked tree
VERDICT_KEEPING_REASONS = (CHANGED_BY_HOOK, CHANGED_BY_MERGE)
WORKTREE_LOST = "its worktree was deleted"  # why an iteration ended without a result


class IterationEnded(Event, frozen=True, kw_only=True):
    """The iteration ended without a result that could be evaluated."""

    type: ClassVar[str] = "iteration.ended"
    task_id: str | int = msgspec.field(name="taskId")
    iteration: int
    reason: str


class TaskCommitted(Event, frozen=True, kw_only=True):
    """All changes of the task are one commit on its branch; None when it changed nothing."""

    type: ClassVar[str] = "task.committed"
    task_id: str | int = msgspec.field(name="taskId")
    commit: str | None = None


class CommitChanged(Event, frozen=True, kw_only=True):
    """The task's branch is at a commit that differs from the checked tree, so the checks run again.

    `reason` is "hook" when a commit hook changed files, "merge" when the run's branch was merged into it, "moved" when
    another program committed there. The verdict stays valid for the first two.
    """

    type: ClassVar[str] = "commit.changed"
    task_id: str | int = msgspec.field(name="taskId")
    commit: str
    tree: str
    reason: str
    files: list[str] = []


class CommitRefused(Event, frozen=True, kw_only=True):
    """A commit hook rejected the checked tree. Its output goes to the worker as a failed check."""

    type: ClassVar[str] = "commit.refused"
    task_id: str | int = msgspec.field(name="taskId")
    tree: str | None = None
    output: str = ""


class MergeConflicted(Event, frozen=True, kw_only=True):
    """The task's branch conflicts with the run's branch; its worktree has these conflicts."""

    type: ClassVar[str] = "merge.conflicted"
    task_id: str | int = msgspec.field(name="taskId")
    files: list[str] = []


class TaskReopened(Event, frozen=True, kw_only=True):
    """The task is open again: it failed and is retried, its text changed, or a person asked for more."""

    type: ClassVar[str] = "task.reopened"
    task_id: str | int = msgspec.field(name="taskId")
    reason: str | None = None


class TaskRestarted(Event, frozen=True, kw_only=True):
    """The task begins again from scratch: a new branch, a new agent. `salvaged` are the refs that have its old work."""

    type: ClassVar[str] = "task.restarted"
    task_id: str | int = msgspec.field(name="taskId")
    reason: str | None = None
    salvaged: list[str] = []


class LearningsProposed(Event, frozen=True, kw_only=True):
    """Learnings that an agent proposes for later work; the user accepts or ignores them.

    A task without learnings has one such event too, with the `reason`.
    """

    type: ClassVar[str] = "learnings.proposed"
    task_id: str | int = msgspec.field(name="taskId")
    learnings: list[str] = []
    reason: str | None = None


class MemoryLoaded(Event, frozen=True, kw_only=True):
    """The memory channels of a prompt.

    For each: whether it was present, its full size in bytes and hash, the characters that were sent, and whether they
    were cut. Older lines have `characters` instead; there, size and hash are of the sent text.
    """

    type: ClassVar[str] = "memory.loaded"
    task_id: str | int | None = msgspec.field(name="taskId", default=None)
    role: str | None = None
    channels: msgspec.Raw = JSON_NULL


class ProgressReported(Event, frozen=True, kw_only=True):
    """One line from an agent about its progress, for people who watch."""

    type: ClassVar[str] = "progress.reported"
    task_id: str | int | None = msgspec.field(name="taskId", default=None)
    text: str


class HookRan(Event, frozen=True, kw_only=True):
    """A hook of the user ran.

    `outcome` is allow or block for a `pre_tool` hook, ran or failed for others. `reason` is why it blocked or failed;
    `tool` is the tool call that it was asked about. `runtime` is set when it ran confined.
    """

    type: ClassVar[str] = "hook.ran"
    hook: str
    command: str
    exit_code: int | None = None
    problem: str | None = None
    outcome: str | None = None
    reason: str | None = None
    tool: str | None = None
    task: str | int | None = None
    conversation: str | None = None
    runtime: str | None = None


FAMILY = (
    CaseSubmitted,
    ReportRefused,
    ValidatorFinished,
    ValidationStarted,
    ValidationFinished,
    VerdictGiven,
    IterationEnded,
    TaskCommitted,
    CommitChanged,
    CommitRefused,
    MergeConflicted,
    TaskReopened,
    TaskRestarted,
    LearningsProposed,
    MemoryLoaded,
    ProgressReported,
    HookRan,
)
