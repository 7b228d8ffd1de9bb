"""The tasks of a run in its state: the plan, and what became of each task. Plain data."""

from enum import StrEnum

import msgspec


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    REVIEW = "REVIEW"  # of a chat: its conversation waits for the user, who accepts the work or asks for changes
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


BEGUN_STATUSES = (TaskStatus.IN_PROGRESS, TaskStatus.REVIEW)  # worked on, and not over


class TaskStage(StrEnum):
    """The next step of a task in progress."""

    WORK = "work"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    COMMIT = "commit"
    MERGE = "merge"
    COMPLETE = "complete"


class Check(msgspec.Struct):
    """The newest result of a validator."""

    name: str
    passed: bool
    output: str = ""
    problem: str | None = None
    flaky: bool = False
    excused: bool = False  # it failed on the untouched base too

    @property
    def is_failure(self) -> bool:
        """Whether the task has to repair it."""
        return not self.passed and not self.excused


class EvaluatorVerdict(msgspec.Struct):
    iteration: int
    accept: bool
    category: str | None = None
    concern: str | None = None
    evidence: str | None = None
    next_step: str | None = None
    synthetic: bool = False
    ts: str | None = None  # when it was given


class LostWork(msgspec.Struct):
    """Work of a task that was lost outside Holdfast, and a text for its worker about what was done."""

    subject: str
    text: str


class Task(msgspec.Struct):
    status: TaskStatus = TaskStatus.PENDING
    summary: str | None = None
    agent: str | None = None
    files: list[str] | None = None
    files_changed: list[str] | None = None
    error: str | None = None
    attempts: int | None = None
    reason: str | None = None
    wants: str | None = None  # the agent that the plan names
    description: str = ""
    acceptance_criteria: list[str] = []
    key: str | None = None  # hash of its content
    done_key: str | None = None  # the key when it was completed
    stage: TaskStage = TaskStage.WORK
    iteration: int = 0
    evaluations: int = 0
    conflicts: list[str] = []
    conflicted: int = 0  # merges with conflicts
    refused: int = 0  # denied tool calls of its worker, since the task was opened
    since: int = 0  # turns of its worker before this iteration
    worker: str | None = None
    evaluator: str | None = None
    case: str | None = None  # as JSON
    checks: list[Check] = []
    verdicts: list[EvaluatorVerdict] = []
    tree: str | None = None  # the checked tree, which is evaluated and committed
    head: str | None = None  # HEAD when the tree was captured
    merging: str | None = None  # the commit that was being merged then
    unchecked: str | None = None  # a commit on its branch with another tree
    recheck: str | None = None  # why the checks run on that commit instead of on the worktree
    hook_refused: str | None = None  # the last tree that a commit hook rejected
    commit: str | None = None
    outcome: str | None = None  # in the worker's words
    learned: bool = False  # its worker proposed learnings since it was started
    before: str | None = None  # the old text that its worker knows, until a notice of the change is delivered
    losses: dict[str, LostWork] = {}  # not reported to its worker yet, by the key of the notice
    accepted: int = 0  # iterations of a chat that the user accepted and that are merged
    finishing: bool = False  # the user accepted it as the end of the chat
    tokens: int = 0  # spent on it
    dollars: float = 0.0  # spent on it, reported or estimated


class Wave(msgspec.Struct):
    task_ids: list[str] = []
    started: bool = False
    completed: bool = False


class Plan(msgspec.Struct):
    """The newest plan, as written. `core.work.plan` turns it into a checked graph."""

    order: list[str] = []
    waves: dict[int, Wave] = {}
    blocked_by: dict[str, list[str]] = {}
    overview: str = ""
    source: str | None = None
    needs_design: bool = False
