"""What all runs of a store spent, by local day and by repository: counted from their logs, each recorded usage once."""

import datetime as dt
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from holdfast.core.events.budget import UsageRecorded
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.text.moment import parse_moment

KEPT_DAYS = 40
_MARK = b'"type":"usage.recorded"'


class Spent(msgspec.Struct):
    """`dollars` are reported, `estimate` is by a table of prices. Both count against a budget."""

    tokens: int = 0
    dollars: float = 0.0
    estimate: float = 0.0

    def add(self, other: "Spent") -> None:
        self.tokens += other.tokens
        self.dollars += other.dollars
        self.estimate += other.estimate


class Spending(msgspec.Struct):
    """What was spent, by the day (`2026-02-14`) and by the name of the repository."""

    days: dict[str, Spent] = {}
    repositories: dict[str, Spent] = {}


class SpendingLimits(NamedTuple):
    day_tokens: int | None = None
    day_dollars: float | None = None
    repository_tokens: int | None = None
    repository_dollars: float | None = None

    @property
    def is_set(self) -> bool:
        return any(limit is not None for limit in self)


def count_usage(spending: Spending, repository: str, data: bytes, zone: dt.tzinfo | None = None) -> None:
    """Count the next lines of a run's log. Without a zone, days are the machine's.

    Usage without a conversation was brought from elsewhere: it was not spent here.
    """
    if _MARK in data:
        for raw in data.split(b"\n"):
            if _MARK in raw:
                _count(spending, repository, parse(raw), zone)


def forget_old_days(spending: Spending) -> None:
    for day in sorted(spending.days)[:-KEPT_DAYS]:
        del spending.days[day]


def exceeded(spending: Spending, limits: SpendingLimits, day: str, repository: str) -> str | None:
    """The name of the setting whose limit is reached; None while there is none."""
    found: Mapping[str, Spent] = {
        "day": spending.days.get(day, Spent()),
        "repository": spending.repositories.get(repository, Spent()),
    }
    for name, spent in found.items():
        tokens, dollars = getattr(limits, f"{name}_tokens"), getattr(limits, f"{name}_dollars")
        if tokens is not None and spent.tokens >= tokens:
            return f"{name}_tokens"
        if dollars is not None and spent.dollars + spent.estimate >= dollars:
            return f"{name}_dollars"
    return None


def _count(spending: Spending, repository: str, line: object, zone: dt.tzinfo | None) -> None:
    if not isinstance(line, Line) or line.type != UsageRecorded.type:
        return
    try:
        event = CODEC.event(line)
    except InvalidEventData:
        return
    if not isinstance(event, UsageRecorded) or event.conversation is None:
        return
    spent = Spent(event.input_tokens + event.output_tokens, event.dollars, event.estimate or 0.0)
    day = dt.datetime.fromtimestamp(parse_moment(line.ts) or 0.0, zone).date().isoformat()
    spending.days.setdefault(day, Spent()).add(spent)
    spending.repositories.setdefault(repository, Spent()).add(spent)
