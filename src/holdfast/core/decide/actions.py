"""The actions that `decide` can choose, and the facts that it needs beyond the log."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from holdfast.core.provider_limit import LimitKind
from holdfast.core.work.agent_choice import AgentChoice

KeyKind = Literal["task", "wave", "phase", "research"]


class ActionKind(StrEnum):
    START = "start"
    WORK = "work"
    ACCEPT_WITHOUT_CASE = "take as done"  # the workflow requires no case
    END_ITERATION = "end iteration"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    SYNTHESIZE_VERDICT = "judge"  # for an evaluator that gives no verdict
    COMMIT = "commit"
    MERGE = "merge"
    COMPLETE = "complete"
    FAIL = "fail"
    REOPEN = "reopen"
    CLOSE_WAVE = "close wave"
    STOP = "stop"
    # of phases
    ENTER = "enter"
    SKIP = "leave out"
    PROMPT = "tell"  # the agent of a phase
    REVIEW = "review"
    CHECK = "check"  # run the project's validators
    SUMMARIZE = "summarize"
    ASK_APPROVAL = "ask approval"
    PUBLISH = "publish"
    CLOSE = "close"
    FAIL_PHASE = "give up"  # until a person decides how to continue
    RECORD_CHANGE = "take as change"  # a message becomes a change request
    RESEARCH = "research"
    END_RESEARCH = "end research"  # without an answer
    # of a chat
    CONVERSE = "converse"  # send what its user wrote
    AWAIT_USER = "await user"  # put the task in review
    ACCEPT = "accept"  # the work so far
    NEXT_ITERATION = "next iteration"  # after accepted work was merged
    RESUME_AGENT = "resume agent"  # without a prompt
    ACCEPT_PLAN = "accept plan"  # of an interview
    PREPARE_RUN = "prepare run"  # from the accepted plan of an interview
    END_CONVERSATIONS = "end conversations"  # of a chat that is finished


class PromptKind(StrEnum):
    """The kind of prompt for an agent."""

    BEGIN = "begin"
    NEXT_ITERATION = "again"
    RESOLVE_CONFLICTS = "resolve"
    NUDGE = "nudge"
    CONTINUE = "go on"
    MESSAGE = "message"


class ActionKey(NamedTuple):
    """Identifies what an action works on. At most one action per key is in progress.

    The kind is a field of its own: a task may be called "phase 1" or "research x".
    """

    kind: KeyKind
    name: str
    role: str | None = None

    def __str__(self) -> str:
        """For people. Two keys may have the same text; compare the keys."""
        words = (None if self.kind == "task" else self.kind, self.name, self.role)
        return " ".join(word for word in words if word is not None)


class Action(NamedTuple):
    kind: ActionKind
    task: str | None = None
    prompt_kind: PromptKind | None = None
    reason: str | None = None
    wave: int | None = None
    phase: str | None = None
    role: str | None = None
    research: str | None = None
    conversation: str | None = None

    @property
    def key(self) -> ActionKey:
        """What the action works on. The start of a wave is an action on its first task."""
        if self.task is not None:
            return ActionKey("task", self.task)
        if self.research is not None:
            return ActionKey("research", self.research)
        if self.phase is not None:
            return ActionKey("phase", self.phase, self.role)
        return ActionKey("wave", str(self.wave))


class AgentPause(NamedTuple):
    """An agent gets no prompt for so many seconds. `parks`: too long for the session to wait."""

    kind: LimitKind
    left_s: float
    parks: bool = False


class RuntimeFacts(NamedTuple):
    """Facts that are not in the log: actions in progress, actions that failed too often, the session's age.

    `paused` are the agents whose provider accepts no prompt now; `agents` says who plays which role.
    """

    busy: frozenset[ActionKey] = frozenset()
    stuck: frozenset[ActionKey] = frozenset()
    elapsed_s: float = 0.0
    idle_s: float = 0.0  # since the last action ended
    paused: Mapping[str, AgentPause] = {}
    agents: AgentChoice = AgentChoice()

    @property
    def busy_tasks(self) -> frozenset[str]:
        return frozenset(key.name for key in self.busy if key.kind == "task")

    def is_busy(self, task_id: str) -> bool:
        return ActionKey("task", task_id) in self.busy

    def is_stuck(self, task_id: str) -> bool:
        return ActionKey("task", task_id) in self.stuck

    def of_kinds(self, *kinds: KeyKind) -> "RuntimeFacts":
        """These facts without the keys of other kinds."""
        busy, stuck = (frozenset(key for key in keys if key.kind in kinds) for keys in (self.busy, self.stuck))
        return self._replace(busy=busy, stuck=stuck)


NOTHING_IN_PROGRESS = RuntimeFacts()
