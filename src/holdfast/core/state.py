"""Everything that is known of a run, as the fold of its events. Plain data: it is what a snapshot holds.

Its size follows the plan (tasks, conversations, checkpoints), never the length of the log: settled effects,
ended turns and consumed messages leave only counts behind.
"""

from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.events.conversation import FileDiff

RESEARCH = "research"  # the kind of a message that answers an agent's question
DENIAL = "denial"  # the kind of a message that tells an agent why a request of it was denied
KILLED = "killed"  # why a session stopped that recorded no end
KEPT = 1_000  # how many notes, issues or warnings are held: the first notes, the newest issues and warnings


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class BranchStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    MERGED = "MERGED"
    DELETED = "DELETED"


class EffectStatus(StrEnum):
    OPEN = "open"
    UNKNOWN = "unknown"


class Session(msgspec.Struct):
    sid: str
    command: str | None = None
    started: str | None = None
    last: str | None = None
    branch: str | None = None
    mode: str | None = None
    events: int = 0
    seen: list[list[int]] = []  # sequence numbers, as sorted ranges [first, last]: one, when none is missing
    ended: bool = False
    end_reason: str | None = None
    upkeep: bool = False  # it did not move the work itself

    @property
    def resumed(self) -> bool:
        """True when this sitting went on with what the one before it left."""
        return self.command == "resume"

    @property
    def stop(self) -> str:
        """Why it stopped: the reason it recorded; `killed` when it died before it could record one."""
        return (self.end_reason or "ended") if self.ended else KILLED


class RunInfo(msgspec.Struct):
    run_id: str
    goal: str
    workflow: str
    repo: str | None = None
    base: str | None = None
    branch: str | None = None
    created: str | None = None
    archived: bool = False


class Stage(StrEnum):
    """What comes next for a task that is in progress."""

    WORK = "work"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    COMMIT = "commit"
    MERGE = "merge"
    COMPLETE = "complete"


class Check(msgspec.Struct):
    """How a validator found the work, the last time that it looked."""

    name: str
    passed: bool
    output: str = ""
    problem: str | None = None
    flaky: bool = False


class Verdict(msgspec.Struct):
    iteration: int
    accept: bool
    category: str | None = None
    concern: str | None = None
    evidence: str | None = None
    next_step: str | None = None
    synthetic: bool = False
    ts: str | None = None  # when it was given


class Loss(msgspec.Struct):
    """Some of a task's work that was lost outside Holdfast, and what was done about it, in words for its worker."""

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
    wants: str | None = None  # the agent that the plan names for it
    description: str = ""
    acceptance_criteria: list[str] = []
    key: str | None = None  # of what it is made from
    done_key: str | None = None  # of what it was made from when it was completed
    stage: Stage = Stage.WORK
    iteration: int = 0
    evaluations: int = 0
    conflicts: list[str] = []
    conflicted: int = 0  # how often its merge met conflicts
    refused: int = 0  # tool calls of its worker that were refused, since the task was opened
    since: int = 0  # turns of its worker before this iteration
    worker: str | None = None
    evaluator: str | None = None
    case: str | None = None  # as JSON
    checks: list[Check] = []
    verdicts: list[Verdict] = []
    tree: str | None = None  # that was checked: it is judged and committed
    head: str | None = None  # the commit that HEAD was at when it was captured
    merging: str | None = None  # and one that was being merged
    unchecked: str | None = None  # a commit on its branch that is of another tree
    recheck: str | None = None  # why the checks run on that commit, instead of on what is in the worktree
    hook_refused: str | None = None  # the tree that a commit hook refused last
    commit: str | None = None
    outcome: str | None = None  # in the worker's words
    learned: bool = False  # its worker proposed learnings since it was started
    before: str | None = None  # the task as its worker was told it, until it is told that this changed
    losses: dict[str, Loss] = {}  # that its worker was not told of yet, by the key of the notice


class Wave(msgspec.Struct):
    task_ids: list[str] = []
    started: bool = False
    completed: bool = False


class Plan(msgspec.Struct):
    """The newest plan, as it was written. `core.plan` makes a checked graph of it."""

    order: list[str] = []
    waves: dict[int, Wave] = {}
    blocked_by: dict[str, list[str]] = {}
    overview: str = ""
    source: str | None = None
    needs_design: bool = False


class PhaseStatus(StrEnum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETE = "COMPLETE"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class Approval(StrEnum):
    ASKED = "asked"
    GIVEN = "given"


class Review(msgspec.Struct):
    passed: bool
    summary: str = ""
    findings: str = "null"  # as JSON


class Document(msgspec.Struct):
    title: str
    text: str
    earlier: list[str] = []  # fingerprints of what it took the place of
    asked: str | None = None  # its text when approval was last asked for
    before: str | None = None  # and when it was asked for before that


class PhaseProgress(msgspec.Struct):
    """How a phase stands. All but its documents is of its newest round."""

    status: PhaseStatus = PhaseStatus.IN_PROGRESS
    round: int = 0
    tries: int = 0  # rounds since its loop was begun anew
    outcome: str | None = None
    reason: str | None = None
    delivered: bool = False
    talks: dict[str, str] = {}  # conversations by role
    reviews: dict[str, Review] = {}  # by role
    found: dict[str, Review] = {}  # what did not pass in the round before, when that one failed
    approval: Approval | None = None
    asked: int = 0  # times that approval was asked for, in all rounds
    published: bool = False
    changes: list[str] = []
    heard: list[str] = []  # of the changes that are for planning, those that it was told beforehand
    sender: str | None = None  # the phase whose failure led to it
    documents: dict[str, Document] = {}


class Research(msgspec.Struct):
    """Something that is looked into. Only its answer makes it done."""

    conversation: str  # of the one who asked
    topic: str
    question: str
    talk: str | None = None
    answered: bool = False
    answer: str | None = None


class Agent(msgspec.Struct):
    sid: str
    role: str | None = None
    task: str | None = None
    branch: str | None = None
    active: bool = True
    result: str | None = None


class OpenMessage(msgspec.Struct):
    """A message that was taken in and not acted on yet."""

    kind: str
    sender: str | None = None
    body: str = "null"  # as JSON
    task: str | None = None  # whom it is for, when it says so
    conversation: str | None = None  # the only one that it is for


class Turn(msgspec.Struct):
    turn: str
    started: str | None = None
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}  # by fingerprint: since they were given, the agent has shown nothing of a call


class Conversation(msgspec.Struct):
    agent: str | None = None
    role: str | None = None
    task: str | None = None
    about: str | None = None  # a phase, or a question that is looked into
    state: str = "created"
    token: str | None = None
    turns: int = 0
    told: int = 0  # turns that took messages along
    unheard: dict[str, OpenMessage] = {}  # told in turns that did not come to their end
    empty: int = 0  # turns in a row in which it said and did nothing, since the run was resumed
    reports: int = 0  # that came from it, also those that could not be read
    refused: int = 0  # reports in a row that could not be read
    notices: list[str] = []  # of its task, told in such turns
    briefed: bool = False  # it ended a turn, or reported what it was asked for: it knows what it is there for
    interrupted_turns: int = 0  # and cancelled or refused ones: those that did not come to their end
    turn: Turn | None = None
    started: bool = False  # an agent was there for it
    pid: int | None = None
    start_time: int | None = None
    boot_id: str | None = None
    mode: str | None = None
    last_message: str | None = None  # the agent's own id of the last message of a turn that ended
    last: str | None = None  # how its last turn went: the agent's reason to stop, or `interrupted`
    cuts: int = 0  # such turns in a row, since the run was resumed
    granted: dict[str, str] = {}  # answers by fingerprint that may not have reached the agent that asked
    dollars: float = 0.0  # what the session of its token has spent, as far as it told
    tokens: int = 0  # in all its sessions
    cost: float = 0.0  # the same
    priced: bool = False  # its agent told a cost, be it zero
    blank: bool = False  # its token is of a new session that is to be told the history, and has not yet heard it

    @property
    def unpriced(self) -> bool:
        """A turn of it is over, and its agent never told a cost: what it spent is unknown."""
        return not self.priced and self.turns > (self.turn is not None)


class Permission(msgspec.Struct):
    """What an agent asked, until the answer has reached it."""

    conversation: str
    title: str
    kind: str | None = None
    paths: list[str] = []
    options: str = "[]"  # as JSON
    fingerprint: str | None = None
    turn: str | None = None
    command: str | None = None
    diffs: list[FileDiff] = []
    input: str = "null"  # as JSON
    note: str | None = None


class GivenAnswer(msgspec.Struct, frozen=True):
    """What a person answered to a permission request, or to a phase that asks for approval.

    `at` is when it was given, or applied. `changes` are what is to be changed before a phase is approved.
    """

    request: str
    text: str
    allow: bool
    by: str | None = None
    at: str | None = None
    option: str | None = None
    reason: str | None = None
    changes: str | None = None
    sid: str | None = None  # the session that applied it


class Effect(msgspec.Struct):
    """An effect without an outcome. Once it has one, it is only counted."""

    kind: str
    task: str | None = None
    arguments: dict[str, Any] = {}
    status: EffectStatus = EffectStatus.OPEN
    reason: str | None = None


class CheckpointReached(msgspec.Struct):
    sid: str
    seq: int
    label: str
    branch: str | None = None
    commit: str | None = None
    plan_step: str | None = None
    resumable: bool = True
    ts: str | None = None


class Issue(msgspec.Struct):
    """An error, a blocker or a failure, as the log has it."""

    type: str
    seq: int
    agent: str | None = None
    task: str | None = None
    detail: dict[str, Any] = {}
    sid: str | None = None


class Branch(msgspec.Struct):
    status: BranchStatus
    task: str | None = None
    target: str | None = None
    base: str | None = None
    tip: str | None = None  # of the run's own: the newest commit that the run put on it
    theirs: str | None = None  # of a task's: a person's commit, which was on top of a failed attempt
    agents: list[str] = []  # of a task's: branches that its agent made, and whose commits it took over
    unsaved: str | None = None  # how its worktree was last seen, until that was committed, or saved with its removal


class PendingChoice(msgspec.Struct):
    """How a resume is to go on past what went wrong, for these tasks: recorded, and not acted on to the end yet."""

    choice: str
    tasks: list[str] = []
    instructions: str | None = None


class Budget(msgspec.Struct):
    """`dollars` is what agents told, None when none told any. What others spent is unknown: see `core.spending`."""

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    cap_tokens: int | None = None
    cap_dollars: float | None = None


class Note(msgspec.Struct):
    """Something about the log itself that a reader should know: the line, and what is the matter with it."""

    line: int
    reason: str


class RunState(msgspec.Struct):
    lines: int = 0
    events: int = 0
    feature: str | None = None
    run: RunInfo | None = None
    sessions: dict[str, Session] = {}
    plan: Plan | None = None
    tasks: dict[str, Task] = {}
    agents: dict[str, Agent] = {}
    conversations: dict[str, Conversation] = {}
    effects: dict[str, Effect] = {}
    effects_settled: int = 0
    checkpoints: list[CheckpointReached] = []
    issues: list[Issue] = []
    warnings: list[Issue] = []
    branches: dict[str, Branch] = {}
    budget: Budget = msgspec.field(default_factory=Budget)
    inbox_cursor: int = 0
    inbox_last: str | None = None  # the message that ends at the cursor, if one does
    inbox_reread: bool = False  # it is not the one that was read first: only the log knows all that was taken in
    inbox_consumed: int = 0
    messages: dict[str, OpenMessage] = {}
    permissions: dict[str, Permission] = {}
    answered: dict[str, GivenAnswer] = {}  # by the message that gave it: the newest that were applied
    settings: dict[str, Any] = {}
    learnings: list[str] = []  # what agents propose that later work should know
    workflow: dict[str, Any] | None = None  # as it was chosen
    wanted: list[str] = []  # optional phases that were asked for
    phase: str | None = None  # the newest
    phases: dict[str, PhaseProgress] = {}
    changes: dict[str, str] = {}  # what people want to be otherwise, and no plan was made with yet
    research: dict[str, Research] = {}
    preferences: dict[str, list[str]] = {}  # by role: what agents propose for later runs
    choice: PendingChoice | None = None
    instructions: list[str] = []  # a person's own words on how to go on, from every resume
    repairs: list[str] = []
    malformed: list[Note] = []
    duplicates: list[Note] = []
    unknown_types: dict[str, int] = {}
    newer: int = 0  # events of a version that this program does not know
    notes_dropped: int = 0

    @property
    def has_plan(self) -> bool:
        """What is to be done is recorded, to its end: the first checkpoint is written after it, in the same append."""
        return (self.plan is not None or self.workflow is not None) and bool(self.checkpoints)

    @property
    def is_unmade(self) -> bool:
        """A run of ours that was killed before its plan was recorded. It cannot continue."""
        return self.run is not None and self.run.repo is not None and not self.has_plan

    def newest_sitting(self) -> Session | None:
        """The newest session that worked on the run itself; None when none did."""
        return next((session for session in reversed(self.sessions.values()) if not session.upkeep), None)
