"""Limits and outages of the providers of agents."""

from typing import ClassVar

from holdfast.core.events.base import Event


class QuotaHit(Event, frozen=True, kw_only=True):
    """An agent met a usage limit. It gets no prompt before `until`.

    `resets_at` is when the limit resets, None if nothing says so; then `until` is the end of a back-off. `how` says how
    this was learnt. `attempts` counts the refusals in a row.
    """

    type: ClassVar[str] = "quota.hit"
    agent: str
    until: str
    provider: str | None = None
    resets_at: str | None = None
    how: str | None = None
    detail: str | None = None
    conversation: str | None = None
    turn: str | None = None
    attempts: int = 1


class OutageMet(Event, frozen=True, kw_only=True):
    """The provider of an agent, or the network, could not be reached. It is asked again at `until`."""

    type: ClassVar[str] = "outage.met"
    agent: str
    until: str
    provider: str | None = None
    how: str | None = None
    detail: str | None = None
    conversation: str | None = None
    turn: str | None = None
    attempts: int = 1


class LimitLifted(Event, frozen=True, kw_only=True):
    """The agent gets prompts again although its limit may not have reset: a person said so."""

    type: ClassVar[str] = "limit.lifted"
    agent: str
    by: str | None = None


FAMILY = (QuotaHit, OutageMet, LimitLifted)
