"""Turns what agents report about their provider's limits into events: until when an agent gets no prompt."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from holdfast.agents.acp.driver import AgentRefused, AgentSilent
from holdfast.agents.limits.problem import ProviderProblem
from holdfast.agents.registry import AgentDefinition
from holdfast.core.decide.actions import AgentPause
from holdfast.core.events import Event
from holdfast.core.events.provider import OutageMet, QuotaHit
from holdfast.core.provider_limit import LimitKind, LimitPolicy, ProviderLimit
from holdfast.core.state import RunState
from holdfast.core.text.cut import cut
from holdfast.core.text.moment import format_moment, parse_moment
from holdfast.core.work.agent_choice import AgentChoice
from holdfast.engine.agents.shared_limits import SharedLimits

_MAX_DETAIL_CHARS = 400
_SHORTEST_S = 2.0  # also when the reset time has just passed
_AFTER_RESET_S = 1.0  # a provider's clock and ours differ


class LimitContext(NamedTuple):
    """How long to wait, the wall clock, the limits that other runs met, and the agents that only take over."""

    policy: LimitPolicy = LimitPolicy()
    clock: Callable[[], float] = time.time
    shared: SharedLimits = SharedLimits(clock=time.time)
    stand_ins: Collection[str] = ()


class LimitedTurn(NamedTuple):
    """What met a limit: a turn of a conversation, or the start of its agent (no turn)."""

    agent: str
    entry: AgentDefinition
    conversation: str
    turn: str | None
    detail: str


def start_problem(error: Exception, stderr: str, now: float) -> ProviderProblem | None:
    """What an agent that could not start, or could not open a session, reports about its provider."""
    if isinstance(error, AgentSilent):
        return None
    from holdfast.agents.limits.recognize import problem_in_error  # noqa: PLC0415 - slow to import; most agents start

    code, data = (error.code, error.data) if isinstance(error, AgentRefused) else (None, None)
    return problem_in_error(f"{error}\n{stderr}", now, code=code, data=data)


def stand_in_problem(state: RunState, context: LimitContext, agent: str) -> ProviderProblem | None:
    """An agent that took over for a paused one and cannot start waits too: the run must not end before the reset."""
    now = context.clock()
    others = (limit for name, limit in state.limits.items() if name != agent)
    if agent not in context.stand_ins or not any((parse_moment(limit.until) or 0.0) > now for limit in others):
        return None
    return ProviderProblem(LimitKind.OUTAGE, None, "a start that failed")


async def limit_event(state: RunState, context: LimitContext, limited: LimitedTurn, problem: ProviderProblem) -> Event:
    """The event. After the first refusal in a row, a back-off applies even if a reset time is reported again."""
    policy, now = context.policy, context.clock()
    known = state.limits.get(limited.agent)
    attempts = known.attempts + 1 if known is not None and known.kind == problem.kind else 1
    back_off = policy.quota if problem.kind == LimitKind.QUOTA else policy.outage
    waits = [now + _SHORTEST_S]
    if problem.resets_at is not None:
        waits.append(problem.resets_at + _AFTER_RESET_S)
    if problem.resets_at is None or attempts > 1:
        waits.append(now + back_off.delay_s(attempts if problem.resets_at is None else attempts - 1))
    met = OutageMet(
        agent=limited.agent,
        until=format_moment(max(waits)),
        provider=limited.entry.provider,
        how=problem.how,
        detail=cut(" ".join(limited.detail.split()), _MAX_DETAIL_CHARS) or None,
        conversation=limited.conversation,
        turn=limited.turn,
        attempts=attempts,
    )
    if problem.kind == LimitKind.OUTAGE:
        return met
    resets_at = format_moment(problem.resets_at) if problem.resets_at is not None else None
    hit = QuotaHit(resets_at=resets_at, **structs.asdict(met))
    await context.shared.publish(limited.entry, hit)
    return hit


class Pauses:
    """The agents of one run that get no prompt now, by the wall clock: it counts on while the machine is suspended."""

    def __init__(self, state: Callable[[], RunState], context: LimitContext) -> None:
        self._state = state
        self._policy, self._clock = context.policy, context.clock

    def now(self) -> Mapping[str, AgentPause]:
        limits = self._state().limits
        if not limits:
            return {}
        now = self._clock()
        found = ((agent, self._pause(limit, now)) for agent, limit in limits.items())
        return {agent: pause for agent, pause in found if pause is not None}

    def pick(self, choice: AgentChoice, agents: Sequence[str], conversation_id: str | None) -> str:
        """The agent for the next prompt of a role. The conversation had the last one."""
        conversation = self._state().conversations.get(conversation_id or "")
        return choice.pick(agents, self.now(), conversation.agent if conversation is not None else None)

    def _pause(self, limit: ProviderLimit, now: float) -> AgentPause | None:
        left = (parse_moment(limit.until) or 0.0) - now
        if left <= 0:
            return None
        if limit.kind is LimitKind.QUOTA:
            return AgentPause(limit.kind, left, left > self._policy.quota_wait_s)
        waited = max(0.0, now - (parse_moment(limit.began) or now))
        return AgentPause(limit.kind, left, waited + left > self._policy.outage_wait_s)
