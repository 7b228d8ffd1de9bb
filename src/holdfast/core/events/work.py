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


class ReportRefused(Event, frozen=True, kw_only=True):
    """An agent reported something that could not be read: it was told what is wrong, and nothing else came of it.

    `attempt` counts such reports of its conversation since one was taken. `raw` is the call, cut when it is long.
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
    runtime: str | None = None  # in which it ran, when that confines: `sandbox` or `container`


class ValidationStarted(Event, frozen=True, kw_only=True):
    """The task's files were captured as `tree`, a git object, and the checks begin on it.

    `head` is the commit that HEAD was at then, `merging` one that was being merged, as when conflicts were resolved.
    Without a tree they could not be: what is wrong with the worktree follows as a check that failed.
    """

    type: ClassVar[str] = "validation.started"
    task_id: str | int = msgspec.field(name="taskId")
    tree: str | None = None
    head: str | None = None
    merging: str | None = None


class ValidationFinished(Event, frozen=True, kw_only=True):
    """All of them were run. What failed goes back to the worker, and begins the next iteration.

    `tree` is what was checked, and so what is judged and committed.
    """

    type: ClassVar[str] = "validation.finished"
    task_id: str | int = msgspec.field(name="taskId")
    passed: bool
    failed: list[str] = []
    tree: str | None = None


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


COMMIT_HOOK = "commit hook"  # the name of a check: the user's own hooks, at the commit
HOOK, MERGE, MOVED = "hook", "merge", "moved"  # why a commit is not of the tree that was checked
VERDICT_STANDS = (HOOK, MERGE)
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


class CommitChanged(Event, frozen=True, kw_only=True):
    """The task's branch is at a commit whose tree is not the one that was checked: the checks run on that one too.

    `reason` is "hook" when a commit hook changed files, "merge" when the run's branch was merged into it, "moved" when
    somebody else committed there. The verdict stands for the first two.
    """

    type: ClassVar[str] = "commit.changed"
    task_id: str | int = msgspec.field(name="taskId")
    commit: str
    tree: str
    reason: str
    files: list[str] = []


class CommitRefused(Event, frozen=True, kw_only=True):
    """A commit hook refused the tree that was checked. What it said goes to the worker, as a check that failed."""

    type: ClassVar[str] = "commit.refused"
    task_id: str | int = msgspec.field(name="taskId")
    tree: str | None = None
    output: str = ""


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


class TaskRestarted(Event, frozen=True, kw_only=True):
    """The task begins again from scratch: a new branch, a new agent. `salvaged` are the refs that have its old work."""

    type: ClassVar[str] = "task.restarted"
    task_id: str | int = msgspec.field(name="taskId")
    reason: str | None = None
    salvaged: list[str] = []


class LearningsProposed(Event, frozen=True, kw_only=True):
    """What an agent thinks that later work should know; for the user to accept.

    A task that ended without any has one such event too, with the `reason`.
    """

    type: ClassVar[str] = "learnings.proposed"
    task_id: str | int = msgspec.field(name="taskId")
    learnings: list[str] = []
    reason: str | None = None


class MemoryLoaded(Event, frozen=True, kw_only=True):
    """Which channels there were for a prompt.

    Of each: whether it was present, its whole size in bytes and hash, the characters that were sent, and whether that
    was cut. Older lines have `characters` instead: theirs, and their hash, are of what was sent.
    """

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
    """A command of the user's was called.

    `outcome` is allow or block of one that is asked before a tool call, ran or failed of any other. `reason` is why it
    blocked or failed; `tool` is the call that it was about. `runtime` is what it ran in, when that was confined.
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
