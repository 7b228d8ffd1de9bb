"""What was spent, and what may be."""

from typing import ClassVar

from holdfast.core.events.base import Event


class UsageRecorded(Event, frozen=True, kw_only=True):
    """Spent since the last such event; totals are the fold's, over every sitting."""

    type: ClassVar[str] = "usage.recorded"
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    conversation: str | None = None
    task: str | int | None = None


class BudgetSet(Event, frozen=True, kw_only=True):
    """The caps from here on; None is no cap."""

    type: ClassVar[str] = "budget.set"
    tokens: int | None = None
    dollars: float | None = None


FAMILY = (UsageRecorded, BudgetSet)
