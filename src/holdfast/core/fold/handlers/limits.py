"""Handlers of providers' limits and outages. A turn that its agent finishes afterwards ends them."""

from holdfast.core.conversation.states import FINISHED_TURN_REASONS
from holdfast.core.events.provider import LimitLifted, OutageMet, QuotaHit
from holdfast.core.fold.handlers.base import on
from holdfast.core.log.codec import Line
from holdfast.core.provider_limit import LimitKind, ProviderLimit
from holdfast.core.state import Conversation, OpenTurn, RunState


@on(QuotaHit)
def _quota_hit(state: RunState, line: Line, event: QuotaHit) -> None:
    _set_limit(state, line, event, LimitKind.QUOTA, event.resets_at)


@on(OutageMet)
def _outage_met(state: RunState, line: Line, event: OutageMet) -> None:
    _set_limit(state, line, event, LimitKind.OUTAGE, None)


@on(LimitLifted)
def _limit_lifted(state: RunState, _: Line, event: LimitLifted) -> None:
    state.limits.pop(event.agent, None)


def _set_limit(
    state: RunState, line: Line, event: QuotaHit | OutageMet, kind: LimitKind, resets_at: str | None
) -> None:
    """The refused turn does not count as a failure of its conversation. It ended in the same append, before this."""
    known = state.limits.get(event.agent)
    began = known.began if known is not None and event.attempts > 1 else line.ts
    state.limits[event.agent] = ProviderLimit(
        kind, event.until, line.ts, began, resets_at, event.provider, event.how, event.detail, event.attempts
    )
    conversation = state.conversations.get(event.conversation or "")
    if conversation is not None and event.turn is not None:
        conversation.limited = True
        conversation.cuts = max(0, conversation.cuts - 1)


def end_limit(state: RunState, conversation: Conversation, turn: OpenTurn | None, stop_reason: str | None) -> None:
    """A turn that was sent after the limit was met and that finished shows that it is over."""
    limit = state.limits.get(conversation.agent or "")
    if limit is None or turn is None or stop_reason not in FINISHED_TURN_REASONS:
        return
    if (turn.started or "") >= (limit.since or ""):
        del state.limits[conversation.agent or ""]
