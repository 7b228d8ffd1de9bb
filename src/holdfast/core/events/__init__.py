"""All event types, one family per file. Events are never renamed or removed: old logs always load."""

from holdfast.core.events import (
    adoption,
    agent,
    branch,
    budget,
    chat,
    checkpoint,
    conversation,
    effect,
    inbox,
    issue,
    log,
    phase,
    plan,
    preparation,
    provider,
    rewind,
    session,
    task,
    work,
)
from holdfast.core.events.base import Draft, Envelope, Event

__all__ = ["TYPES", "Draft", "Envelope", "Event"]

_FAMILIES: tuple[tuple[type[Event], ...], ...] = (
    session.FAMILY,
    rewind.FAMILY,
    plan.FAMILY,
    phase.FAMILY,
    task.FAMILY,
    work.FAMILY,
    agent.FAMILY,
    branch.FAMILY,
    preparation.FAMILY,
    conversation.FAMILY,
    chat.FAMILY,
    effect.FAMILY,
    checkpoint.FAMILY,
    issue.FAMILY,
    budget.FAMILY,
    provider.FAMILY,
    inbox.FAMILY,
    log.FAMILY,
    adoption.FAMILY,
)

TYPES: dict[str, type[Event]] = {kind.type: kind for family in _FAMILIES for kind in family}
