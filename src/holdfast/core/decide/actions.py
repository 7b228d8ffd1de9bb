"""What a run can do next, as data: the actions that `decide` chooses among, and what it has to know beyond the log."""

from enum import StrEnum
from typing import Literal, NamedTuple

Kind = Literal["task", "wave", "phase", "research"]


class Do(StrEnum):
    START = "start"
    WORK = "work"
    TAKE_AS_DONE = "take as done"  # the worker need not argue that it is
    END_ITERATION = "end iteration"
    VALIDATE = "validate"
    EVALUATE = "evaluate"
    JUDGE = "judge"  # in the place of an evaluator that gives no verdict
    COMMIT = "commit"
    MERGE = "merge"
    COMPLETE = "complete"
    FAIL = "fail"
    REOPEN = "reopen"
    CLOSE_WAVE = "close wave"
    STOP = "stop"
    # of phases
    ENTER = "enter"
    LEAVE_OUT = "leave out"
    TELL = "tell"  # the agent of a phase
    REVIEW = "review"
    CHECK = "check"  # by the project's validators, in a review
    SUMMARIZE = "summarize"
    ASK_APPROVAL = "ask approval"
    PUBLISH = "publish"
    CLOSE = "close"
    GIVE_UP = "give up"  # a phase, until a person says how to go on
    TAKE_AS_CHANGE = "take as change"  # words for a run that is done
    RESEARCH = "research"
    END_RESEARCH = "end research"  # nobody found anything


class How(StrEnum):
    """What an agent is told."""

    BEGIN = "begin"
    AGAIN = "again"
    RESOLVE = "resolve"
    NUDGE = "nudge"
    GO_ON = "go on"
    MESSAGE = "message"


class ActionKey(NamedTuple):
    """Identifies what an action works on. At most one action per key is in progress.

    The kind is a field of its own: a task may be called "phase 1" or "research x".
    """

    kind: Kind
    name: str
    role: str | None = None

    def __str__(self) -> str:
        """As people read it. Two keys may read the same; compare the keys."""
        words = (None if self.kind == "task" else self.kind, self.name, self.role)
        return " ".join(word for word in words if word is not None)


class Action(NamedTuple):
    do: Do
    task: str | None = None
    how: How | None = None
    reason: str | None = None
    wave: int | None = None
    phase: str | None = None
    role: str | None = None
    research: str | None = None

    @property
    def key(self) -> ActionKey:
        """What is acted on. The first start of a wave is an action on its task."""
        if self.task is not None:
            return ActionKey("task", self.task)
        if self.research is not None:
            return ActionKey("research", self.research)
        if self.phase is not None:
            return ActionKey("phase", self.phase, self.role)
        return ActionKey("wave", str(self.wave))


class Facts(NamedTuple):
    """What the log does not tell: what is in progress, what failed too often in this session, its age in seconds."""

    busy: frozenset[ActionKey] = frozenset()
    stuck: frozenset[ActionKey] = frozenset()
    elapsed: float = 0.0

    @property
    def busy_tasks(self) -> frozenset[str]:
        return frozenset(key.name for key in self.busy if key.kind == "task")

    def is_busy(self, task: str) -> bool:
        return ActionKey("task", task) in self.busy

    def is_stuck(self, task: str) -> bool:
        return ActionKey("task", task) in self.stuck

    def only(self, *kinds: Kind) -> "Facts":
        """The same, without the keys of other kinds."""
        busy, stuck = (frozenset(key for key in keys if key.kind in kinds) for keys in (self.busy, self.stuck))
        return self._replace(busy=busy, stuck=stuck)


AT_REST = Facts()
