"""What a run waits for when providers of its agents accept no prompts, for people and for `watch`."""

from collections.abc import Iterator

from holdfast.core.end_reason import EndReason
from holdfast.core.notify.schedule import next_day
from holdfast.core.provider_limit import LimitKind, ProviderLimit
from holdfast.core.state import RunState
from holdfast.core.text.moment import format_countdown, format_moment, parse_moment


def resumes_at(state: RunState) -> str | None:
    """When the first of the agents that are paused gets a prompt again; None if none is. It may be in the past.

    A run that stopped because the day's budget is spent continues when the local day turns.
    """
    newest = state.newest_session()
    if newest is not None and newest.end_reason == EndReason.DAY_BUDGET:
        return format_moment(next_day(parse_moment(newest.last) or 0.0))
    return min((limit.until for limit in state.limits.values()), default=None)


def pause_text(state: RunState, agent: str | None, now: str) -> str | None:
    """`usage limit reached; next prompt in 2h 5m`; None for an agent that is not paused."""
    limit = state.limits.get(agent or "")
    left = (parse_moment(limit.until) or 0.0) - (parse_moment(now) or 0.0) if limit is not None else 0.0
    if limit is None or left <= 0:
        return None
    what = "its provider cannot be reached" if limit.kind is LimitKind.OUTAGE else "usage limit reached"
    return f"{what}; next prompt in {format_countdown(left)}"


def limit_lines(state: RunState, now: float) -> Iterator[tuple[str, str]]:
    """Each paused agent with what it waits for, how this was learnt, and a countdown."""
    for agent, limit in state.limits.items():
        yield agent, _limit_text(limit, now)


def _limit_text(limit: ProviderLimit, now: float) -> str:
    until = parse_moment(limit.until) or now
    when = f"next prompt {_minute(limit.until)} UTC (in {format_countdown(until - now)})" if until > now else "over"
    if limit.kind is LimitKind.OUTAGE:
        what = f"its provider cannot be reached, {_tries(limit.attempts)}"
    else:
        reset = f"resets {_minute(limit.resets_at)} UTC" if limit.resets_at else "no reset time is known"
        what = f"usage limit reached, {reset}"
    return f"{what}; {when}{f'; learnt from {limit.how}' if limit.how else ''}"


def _tries(attempts: int) -> str:
    return "tried once" if attempts == 1 else f"tried {attempts} times"


def _minute(moment: str | None) -> str:
    return (moment or "")[:16].replace("T", " ")
