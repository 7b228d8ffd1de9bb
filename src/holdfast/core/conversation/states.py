"""The states of a conversation, whether it must be resumed, and with which recovery strategies. Pure."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.leaf.errors import Denied


class ConversationState(StrEnum):
    """The state of a conversation."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting_for_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_STATES = frozenset({ConversationState.STARTING, ConversationState.RUNNING, ConversationState.WAITING})
ENDED_STATES = frozenset({ConversationState.COMPLETED, ConversationState.FAILED, ConversationState.CANCELLED})

INTERRUPTED, CANCELLED = "interrupted", "cancelled"
CANCELLED_BY_PERSON = "cancelled_by_person"  # it is not continued: the person knows, and so does the agent
REFUSED = "refused"  # the agent answered the prompt with an error; a model that declines is a `refusal`
REFUSAL = "refusal"  # the model declined the request: asking again gets the same answer
NO_TOOLS = "no_tools"  # the agent did not have its reporting tools when the turn began
UNFINISHED_TURN_REASONS = frozenset({INTERRUPTED, CANCELLED, REFUSED, NO_TOOLS})  # of turns that did not finish

ASKED_AGAIN = frozenset({REFUSED, NO_TOOLS})  # prompted again after a pause, without asking a person

IMPORTED = "imported"  # a turn under another tool: its agent was told nothing of Holdfast and its tools
FINISHED_TURN_REASONS = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", IMPORTED}
)  # of turns in which the agent answered

_TRANSITIONS: dict[ConversationState, frozenset[ConversationState]] = {
    ConversationState.CREATED: frozenset(
        {ConversationState.STARTING, ConversationState.FAILED, ConversationState.CANCELLED}
    ),
    ConversationState.STARTING: frozenset(
        {
            ConversationState.STARTING,
            ConversationState.RUNNING,
            ConversationState.WAITING,
            ConversationState.FAILED,
            ConversationState.CANCELLED,
        }
    ),
    ConversationState.RUNNING: frozenset({ConversationState.STARTING, ConversationState.WAITING, *ENDED_STATES}),
    ConversationState.WAITING: frozenset({ConversationState.STARTING, ConversationState.RUNNING, *ENDED_STATES}),
    ConversationState.COMPLETED: frozenset(),
    ConversationState.FAILED: frozenset(),
    ConversationState.CANCELLED: frozenset(),
}


class InvalidTransition(Denied):
    """A conversation cannot change from its state to the requested one."""


def check_transition(conversation_id: str, current: str, target: ConversationState) -> None:
    """Raise `InvalidTransition` unless a conversation may change from one state to another."""
    if target not in _TRANSITIONS[ConversationState(current)]:
        allowed = ", ".join(sorted(_TRANSITIONS[ConversationState(current)])) or "nothing: it has ended"
        raise InvalidTransition(
            f"conversation {conversation_id} is {current} and cannot become {target}; it can become {allowed}"
        )


class ResumeNeed(NamedTuple):
    """Whether a conversation must be resumed before the next prompt, and why or why not."""

    must_resume: bool
    reason: str


class AgentActivity(NamedTuple):
    """Facts about a conversation's agent. `was_started`: an agent was spawned for it at least once."""

    is_running: bool
    was_active_recently: bool
    was_started: bool


def needs_resume(state: str, token: str | None, activity: AgentActivity) -> ResumeNeed:
    """Decide whether to resume. The reasons are codes for logs."""
    if activity.is_running:
        return ResumeNeed(False, "agent_running")
    if state in ENDED_STATES:
        return ResumeNeed(False, f"conversation_{state}")
    if activity.was_active_recently:
        return ResumeNeed(False, "stale_execution")
    if state not in ACTIVE_STATES:
        return ResumeNeed(False, "not_started")
    if token is not None:
        return ResumeNeed(True, "agent_not_running")
    return (
        ResumeNeed(True, "agent_not_running_fresh_start") if activity.was_started else ResumeNeed(False, "not_started")
    )


class RecoveryStrategy(StrEnum):
    """How a conversation continues after its agent died, best first."""

    REATTACH = "reattach"
    FORK = "session/fork"  # at the message to which the conversation was rewound
    RESUME = "session/resume"
    LOAD = "session/load"
    HISTORY = "history injection"
    FRESH = "fresh"


class Capability(NamedTuple):
    """Whether an agent claims an ability, and what a probe showed: True, False, or None when not probed."""

    advertised: bool
    observed: bool | None = None

    @property
    def is_usable(self) -> bool:
        return self.advertised and self.observed is not False


def recovery_strategies(
    token: str | None,
    *,
    resume: Capability,
    load: Capability,
    is_alive: bool,
    has_history: bool,
    can_fork: bool = False,
) -> list[RecoveryStrategy]:
    """The strategies to try, in order. The last is a new session, which gets the history if there is one.

    `can_fork`: the conversation was rewound, and the agent may be able to copy its session up to that message.
    """
    possible = {
        RecoveryStrategy.REATTACH: is_alive,
        RecoveryStrategy.FORK: can_fork,
        RecoveryStrategy.RESUME: token is not None and resume.is_usable,
        RecoveryStrategy.LOAD: token is not None and load.is_usable,
        RecoveryStrategy.HISTORY: has_history,
        RecoveryStrategy.FRESH: not has_history,
    }
    return [strategy for strategy, is_possible in possible.items() if is_possible]


def next_strategy(strategies: Sequence[RecoveryStrategy], tried: Sequence[RecoveryStrategy]) -> RecoveryStrategy | None:
    """The best untried strategy, else None. The last one is tried twice: the process itself may have failed."""
    left = [strategy for strategy in strategies if strategy not in tried]
    if left:
        return left[0]
    return strategies[-1] if tried.count(strategies[-1]) == 1 else None


NATIVE_STRATEGIES = frozenset({RecoveryStrategy.RESUME, RecoveryStrategy.LOAD})
NEW_SESSION_STRATEGIES = frozenset({RecoveryStrategy.HISTORY, RecoveryStrategy.FRESH})

# Our own agents: the session exists but cannot be opened now, for example on a full disk.
SESSION_UNAVAILABLE_CODE = -32050
# Holdfast itself: it is unknown whether the agent still has the session.
SESSION_UNVERIFIED_CODE = -32051
_METHOD_NOT_FOUND_CODE, _AUTH_REQUIRED_CODE = -32601, -32000


def is_rejection(strategy: RecoveryStrategy, code: int | None) -> bool:
    """Whether this error code means that the agent does not know the session. `code` is None without an error."""
    return (
        strategy in NATIVE_STRATEGIES
        and code is not None
        and code not in (_METHOD_NOT_FOUND_CODE, _AUTH_REQUIRED_CODE, SESSION_UNAVAILABLE_CODE, SESSION_UNVERIFIED_CODE)
    )


class AfterInterruption(StrEnum):
    """What to do with an interrupted turn. With ASK, a person decides."""

    CONTINUE = "continue"
    RETRY = "retry"
    ASK = "ask"
