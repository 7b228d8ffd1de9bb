"""What was spent, and what may be."""

from typing import ClassVar

from holdfast.core.events.base import Event


class UsageRecorded(Event, frozen=True, kw_only=True):
    """Spent since the last such event; totals are the fold's, over every session.

    `priced` says that the agent told a cost with it, which may be zero. In older logs only a cost above zero tells so.
    """

    type: ClassVar[str] = "usage.recorded"
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    conversation: str | None = None
    task: str | int | None = None
    priced: bool = False


class BudgetSet(Event, frozen=True, kw_only=True):
    """The caps from here on; None is no cap."""

    type: ClassVar[str] = "budget.set"
    tokens: int | None = None
    dollars: float | None = None


FAMILY = (UsageRecorded, BudgetSet)
