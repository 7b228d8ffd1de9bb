"""The state of a run, as the fold of its events. Plain data, stored in snapshots.

Its size depends on the plan (tasks, conversations, checkpoints), never on the length of the log: of settled effects,
ended turns and consumed messages only counts remain.
"""

from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.events.conversation import FileDiff
from holdfast.core.events.rewind import BranchPoint
from holdfast.core.interview import Interview
from holdfast.core.phase_state import PhaseProgress, Research
from holdfast.core.provider_limit import ProviderLimit
from holdfast.core.task_state import Plan, Task

KILLED = "killed"  # the stop reason of a session that recorded no end
MAX_KEPT = 1_000  # notes (the first), issues and warnings (the newest)


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
    seen: list[list[int]] = []  # sequence numbers as sorted ranges [first, last]; one range when none is missing
    ended: bool = False
    end_reason: str | None = None
    end_detail: str | None = None  # why, in words
    machine: str | None = None  # in a cluster run
    upkeep: bool = False  # a maintenance command, which did not change the run's progress
    abandoned: bool = False  # all that it did was taken back by a rewind

    @property
    def is_resume(self) -> bool:
        """Whether this session continued the one before it."""
        return self.command == "resume"

    @property
    def stop_reason(self) -> str:
        """The recorded reason; `killed` when the session died before it could record one."""
        return (self.end_reason or "ended") if self.ended else KILLED


class AdoptedFrom(msgspec.Struct, frozen=True):
    """The session of another tool that a run was made of. `path` is its file or folder, `session` its own id."""

    tool: str
    path: str
    at: str | None = None
    version: str | None = None
    session: str | None = None


class RunInfo(msgspec.Struct):
    run_id: str
    goal: str
    workflow: str
    repo: str | None = None
    base: str | None = None
    branch: str | None = None
    created: str | None = None
    archived: bool = False
    seeded: bool = False  # its base has seed files, which may be tests that the work has to pass
    adopted: AdoptedFrom | None = None
    remote: str | None = None  # a cluster run: the URL of its repository
    needs: list[str] = []  # the labels that its worker must have


class Agent(msgspec.Struct):
    sid: str
    role: str | None = None
    task: str | None = None
    branch: str | None = None
    active: bool = True
    result: str | None = None


class OpenMessage(msgspec.Struct):
    """A consumed message that is not handled yet."""

    kind: str
    sender: str | None = None
    body: str = "null"  # as JSON
    task: str | None = None  # the task or phase that it is for, if it names one
    conversation: str | None = None  # the only conversation that it is for


class OpenTurn(msgspec.Struct):
    turn: str
    started: str | None = None
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}  # permission answers by fingerprint, until the agent shows a tool call


class ForkSource(msgspec.Struct, frozen=True):
    """An agent session that knows a conversation up to a message of the agent, and what was said after it."""

    token: str
    message: str  # the agent's own id


class Conversation(msgspec.Struct):
    agent: str | None = None
    role: str | None = None
    task: str | None = None
    about: str | None = None  # a phase or a research question
    after: str | None = None  # the conversation of another agent that it continues
    state: str = "created"
    token: str | None = None
    turns: int = 0
    told: int = 0  # turns that delivered messages
    unheard: dict[str, OpenMessage] = {}  # messages of turns that did not finish
    empty: int = 0  # empty turns in a row, since the run was resumed
    reports: int = 0  # including invalid ones
    refused: int = 0  # invalid reports in a row
    notices: list[str] = []  # notices of turns that did not finish
    briefed: bool = False  # it ended a turn or submitted its result, so it knows its job
    interrupted_turns: int = 0  # all turns that did not finish, also cancelled or refused ones
    turn: OpenTurn | None = None
    started: bool = False  # an agent was started for it
    pid: int | None = None
    start_time: int | None = None
    boot_id: str | None = None
    mode: str | None = None
    last_turn: str | None = None
    last_message: str | None = None  # the agent's own id of the message with which its last turn ended
    fork_source: ForkSource | None = None  # after a rewind: the session to copy, up to a message
    last: str | None = None  # the stop reason of its last turn, or `interrupted`
    cuts: int = 0  # unfinished turns in a row, since the run was resumed
    limited: bool = False  # its last turn met a limit or an outage of its agent's provider
    granted: dict[str, str] = {}  # permission answers by fingerprint that may not have reached the agent
    dollars: float = 0.0  # the reported cost of the agent session of its token
    tokens: int = 0  # of all its agent sessions
    cost: float = 0.0  # of all its agent sessions
    priced: bool = False  # its agent reported a cost, even if zero
    estimate: float | None = None  # by a table of prices, while its agent reports no cost
    blank: bool = False  # its token is of a new agent session that has not received the history yet
    rewound: str | None = None  # what its agent must be told about a rewind, with its next prompt
    options: dict[str, str] = {}  # chosen by a person: `mode`, `model`, or an option of the agent
    model: str | None = None  # as its agent told when it was started
    commands: dict[str, str] = {}  # the agent's own slash commands, and what each does

    @property
    def has_unknown_cost(self) -> bool:
        """Whether it had a turn, its agent never reported a cost, and no price of its model is known."""
        return not self.priced and self.estimate is None and self.turns > (self.turn is not None)


class PermissionRequest(msgspec.Struct):
    """An open permission request of an agent."""

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


class PermissionRule(msgspec.Struct, frozen=True):
    """What a person always allows in this run: a kind of tool with exactly this command or these paths."""

    kind: str | None = None
    command: str | None = None
    paths: tuple[str, ...] = ()
    by: str | None = None


class GivenAnswer(msgspec.Struct, frozen=True):
    """A person's answer to a permission request or an approval.

    `at` is when it was given or applied. `changes` must be made before a phase is approved.
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
    """An effect without an outcome. Settled effects are only counted."""

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
    """An error, a blocker or a failure from the log."""

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
    tip: str | None = None  # the run's branch: the newest commit of the run
    theirs: str | None = None  # a task's branch: a person's commit on top of a failed attempt
    agents: list[str] = []  # a task's branch: branches of its agent whose commits it took over
    unsaved: str | None = None  # the last snapshot of its worktree, until it is committed or saved at removal
    turn: int = 0  # the last turn whose files were kept, as people count them
    turn_files: str | None = None  # the snapshot after it, or what a rewind set the files back to
    committed: str | None = None  # a task's branch: the newest commit of the run on it
    during: str | None = None  # a later snapshot, taken during the turn after that
    prepared: str | None = None  # the key of the setup that its worktree had; None since it was made


class Publication(msgspec.Struct, frozen=True):
    """Work of the run that left it. `where` is a branch of the user, a remote, or the address of a pull request."""

    where: str
    commit: str | None = None  # of the run's branch
    at: str | None = None


class BaselineCheck(msgspec.Struct):
    """How a check ended on the untouched base."""

    name: str
    passed: bool
    excused: bool = False  # its failure does not gate tasks


class Baseline(msgspec.Struct):
    """The checks on the untouched base, by a hash of their commands."""

    tree: str
    runtime: str | None = None
    checks: dict[str, BaselineCheck] = {}
    finished: bool = False


class PendingChoice(msgspec.Struct):
    """A recorded choice how to resume these tasks, not carried out completely yet."""

    choice: str
    tasks: list[str] = []
    instructions: str | None = None


class Budget(msgspec.Struct):
    """`dollars` is the reported cost; None when no agent reported any (see `core.summary.spending`).

    `estimate` is what agents that report no cost spent by a table of prices; None when there is none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    estimate: float | None = None
    cap_tokens: int | None = None
    cap_dollars: float | None = None


class Note(msgspec.Struct):
    """A remark about a line of the log."""

    line: int
    reason: str


class Rewind(msgspec.Struct, frozen=True):
    """The log between the positions `to` and `at` is abandoned."""

    at: int
    to: int


class OpenRewind(msgspec.Struct):
    """The last rewind or fork, while its worktrees and branches may not be at its point yet."""

    at: int
    position: int
    only: str
    point: str | None = None
    branches: list[BranchPoint] = []  # of a fork; a rewind finds them in the state at its position
    snapshots: dict[str, str] = {}


class WithheldPart(msgspec.Struct, frozen=True):
    """What a retention rule withholds of the log before a position."""

    rule: str
    until: int
    events: int
    bytes: int
    at: str | None


class RunState(msgspec.Struct, dict=True):
    """`core.task_index` keeps indexes beside the fields. They are derived from them and not part of the state."""

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
    published: dict[str, Publication] = {}  # the newest of each kind of effect
    checkpoints: list[CheckpointReached] = []
    issues: list[Issue] = []
    warnings: list[Issue] = []
    branches: dict[str, Branch] = {}
    baseline: Baseline | None = None
    budget: Budget = msgspec.field(default_factory=Budget)
    inbox_cursor: int = 0
    inbox_last: str | None = None  # the message that ends at the cursor, if any
    inbox_reread: bool = False  # the inbox file was replaced: only the log knows all consumed messages
    inbox_consumed: int = 0
    messages: dict[str, OpenMessage] = {}
    permissions: dict[str, PermissionRequest] = {}
    answered: dict[str, GivenAnswer] = {}  # the newest applied answers, by message
    rules: dict[str, PermissionRule] = {}  # what a person always allows, until it is revoked
    limits: dict[str, ProviderLimit] = {}  # of agents whose provider accepts no prompt now, by agent
    settings: dict[str, Any] = {}
    learnings: list[str] = []  # proposed by agents for later work
    workflow: dict[str, Any] | None = None  # as chosen
    wanted: list[str] = []  # requested optional phases
    phase: str | None = None  # the newest
    phases: dict[str, PhaseProgress] = {}
    interview: Interview | None = None
    changes: dict[str, str] = {}  # change requests that no plan includes yet
    research: dict[str, Research] = {}
    preferences: dict[str, list[str]] = {}  # proposed by agents for later runs, by role
    choice: PendingChoice | None = None
    instructions: list[str] = []  # of people, from every resume
    repairs: list[str] = []
    withheld: list[WithheldPart] = []
    malformed: list[Note] = []
    duplicates: list[Note] = []
    unknown_types: dict[str, int] = {}
    rewinds: list[Rewind] = []  # in the order of the log; each may abandon earlier ones
    rewinding: OpenRewind | None = None
    newer: int = 0  # events of a version that this program does not know
    notes_dropped: int = 0

    @property
    def has_plan(self) -> bool:
        """Whether the plan or workflow is recorded completely: the first checkpoint follows it in the same append."""
        return (self.plan is not None or self.workflow is not None) and bool(self.checkpoints)

    def merged_into(self) -> str | None:
        """The user's branch that has all work of the run; None while some of it is merged nowhere."""
        merge = self.published.get("merge.into")
        own = self.branches.get((self.run and self.run.branch) or "")
        return merge.where if merge is not None and own is not None and own.tip in (None, merge.commit) else None

    @property
    def is_chat(self) -> bool:
        """Whether its conversations wait for their user between turns."""
        return bool((self.workflow or {}).get("chat"))

    @property
    def is_interview(self) -> bool:
        """Whether it is a chat in which an agent proposes a plan."""
        return bool((self.workflow or {}).get("interview"))

    @property
    def is_missing_plan(self) -> bool:
        """Whether a Holdfast run was killed before its plan was recorded. Such a run cannot continue."""
        return self.run is not None and self.run.repo is not None and not self.has_plan

    @property
    def has_moved(self) -> bool:
        """Whether another machine had this cluster run before the newest session."""
        machines = [session.machine for session in self.sessions.values() if session.machine is not None]
        return len(machines) > 1 and machines[-1] != machines[-2]

    def newest_session(self) -> Session | None:
        """The newest session that worked on the run itself, and was not taken back; None when none did."""
        worked = (session for session in reversed(self.sessions.values()) if not (session.upkeep or session.abandoned))
        return next(worked, None)
