"""Usage, and the limits on it."""

from typing import ClassVar

from holdfast.core.events.base import Event


class UsageRecorded(Event, frozen=True, kw_only=True):
    """Usage since the last such event; the fold adds it up over all sessions.

    `priced`: the agent reported a cost, which may be zero. In older logs only a cost above zero shows that.
    `estimate` is what these tokens cost by a table of prices, in dollars, if the agent reports no cost.
    """

    type: ClassVar[str] = "usage.recorded"
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    conversation: str | None = None
    task: str | int | None = None
    priced: bool = False
    estimate: float | None = None


class BudgetSet(Event, frozen=True, kw_only=True):
    """The limits from now on; None is no limit."""

    type: ClassVar[str] = "budget.set"
    tokens: int | None = None
    dollars: float | None = None


FAMILY = (UsageRecorded, BudgetSet)
