"""A conversation's states, whether it must be resumed, and by which way: all of it chosen here, without doing any."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from holdfast.leaf.errors import Denied


class Phase(StrEnum):
    """Where a conversation stands."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting_for_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = frozenset({Phase.STARTING, Phase.RUNNING, Phase.WAITING})
OVER = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})

INTERRUPTED, CANCELLED = "interrupted", "cancelled"
REFUSED = "refused"  # the agent answered its prompt with an error; a model that will not is a `refusal`
NO_TOOLS = "no_tools"  # it was to report, and had not got the tools for that when its turn began
CUT_OFF = frozenset({INTERRUPTED, CANCELLED, REFUSED, NO_TOOLS})  # how a turn went that did not come to its end

ASKED_AGAIN = frozenset({REFUSED, NO_TOOLS})  # after a pause, by nobody's decision; no word on the work itself

SPOKE = frozenset({"end_turn", "max_tokens", "max_turn_requests"})  # how one went in which the agent had its say

_NEXT: dict[Phase, frozenset[Phase]] = {
    Phase.CREATED: frozenset({Phase.STARTING, Phase.FAILED, Phase.CANCELLED}),
    Phase.STARTING: frozenset({Phase.STARTING, Phase.RUNNING, Phase.WAITING, Phase.FAILED, Phase.CANCELLED}),
    Phase.RUNNING: frozenset({Phase.STARTING, Phase.WAITING, *OVER}),
    Phase.WAITING: frozenset({Phase.STARTING, Phase.RUNNING, *OVER}),
    Phase.COMPLETED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.CANCELLED: frozenset(),
}


class WrongTransition(Denied):
    """A conversation cannot go from where it is to there."""


def must_go(conversation: str, now: str, then: Phase) -> None:
    """That a conversation may go from one phase to another."""
    if then not in _NEXT[Phase(now)]:
        allowed = ", ".join(sorted(_NEXT[Phase(now)])) or "nowhere: it is over"
        raise WrongTransition(f"conversation {conversation} is {now} and cannot become {then}; it can go to {allowed}")


class Need(NamedTuple):
    """Whether a conversation must be resumed before it can be spoken to, and why (not)."""

    resume: bool
    reason: str


class Seen(NamedTuple):
    """What is known of a conversation's agent. `started` when one was ever spawned for it."""

    running: bool
    recently: bool
    started: bool


def needs_resume(phase: str, token: str | None, seen: Seen) -> Need:
    """The four cases, and the three in which there is nothing to resume."""
    if seen.running:
        return Need(False, "agent_running")
    if phase in OVER:
        return Need(False, f"conversation_{phase}")
    if seen.recently:
        return Need(False, "stale_execution")
    if phase not in ACTIVE:
        return Need(False, "not_started")
    if token is not None:
        return Need(True, "agent_not_running")
    return Need(True, "agent_not_running_fresh_start") if seen.started else Need(False, "not_started")


class Rung(StrEnum):
    """A way back into a conversation, the best first."""

    REATTACH = "reattach"
    RESUME = "session/resume"
    LOAD = "session/load"
    INJECT = "history injection"
    FRESH = "fresh"


class Ability(NamedTuple):
    """What an agent says it can do, and what a probe of it showed: True, False, or None when nobody looked."""

    says: bool
    showed: bool | None = None

    @property
    def trusted(self) -> bool:
        return self.says and self.showed is not False


def ladder(token: str | None, *, resume: Ability, load: Ability, alive: bool, history: bool) -> list[Rung]:
    """The rungs to try, in this order. The last is a new session, which is told the history when there is one."""
    possible = {
        Rung.REATTACH: alive,
        Rung.RESUME: token is not None and resume.trusted,
        Rung.LOAD: token is not None and load.trusted,
        Rung.INJECT: history,
        Rung.FRESH: not history,
    }
    return [rung for rung, is_possible in possible.items() if is_possible]


def next_rung(rungs: Sequence[Rung], tried: Sequence[Rung]) -> Rung | None:
    """The best that is left; None when none is. The last is tried twice: its failure may have been the process's."""
    left = [rung for rung in rungs if rung not in tried]
    if left:
        return left[0]
    return rungs[-1] if tried.count(rungs[-1]) == 1 else None


NATIVE = frozenset({Rung.RESUME, Rung.LOAD})

NOT_NOW = -32050  # by which our own agents say that a session is there, and cannot be had now, as on a full disk
UNVERIFIED = -32051  # by which we say that nothing shows whether an agent has the session: it may have it all the same
_NO_SUCH_METHOD, _LOG_IN_FIRST = -32601, -32000


def is_rejection(rung: Rung, code: int | None) -> bool:
    """True when an agent that refused with this code does not know the session. None: it did not refuse."""
    return rung in NATIVE and code is not None and code not in (_NO_SUCH_METHOD, _LOG_IN_FIRST, NOT_NOW, UNVERIFIED)


class AfterInterruption(StrEnum):
    """What to do with a turn that was interrupted: a person says how under ASK."""

    CONTINUE = "continue"
    RETRY = "retry"
    ASK = "ask"
