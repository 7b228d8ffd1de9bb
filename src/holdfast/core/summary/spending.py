"""What was spent. Not every agent reports its cost: unknown is shown as unknown, never as zero."""

from collections.abc import Iterable, Sequence

from holdfast.core.state import Conversation, RunState

_CENT = 0.01


def cost_text(dollars: float | None, unpriced: int, estimate: float | None = None) -> str:
    """`$1.20`, `unknown`, or `$1.20 + unknown` when the agents of some conversations reported no cost.

    What was computed from a table of prices is marked: `~$0.40 (estimate)`.
    """
    parts = [_amount(dollars)] if dollars is not None else []
    if estimate is not None:
        parts.append(f"~{_amount(estimate)} (estimate)")
    if unpriced:
        parts.append("unknown")
    return " + ".join(parts) or "$0.00"


def _amount(dollars: float) -> str:
    return f"<${_CENT}" if 0 < dollars < _CENT / 2 else f"${dollars:,.2f}"


def spent_text(tokens: int, dollars: float | None, unpriced: int, estimate: float | None = None) -> str:
    """`1,900 tokens, $0.25`; `1,900 tokens, cost unknown`."""
    cost = cost_text(dollars, unpriced, estimate)
    is_unknown = dollars is None and estimate is None and unpriced
    return f"{tokens:,} tokens, {f'cost {cost}' if is_unknown else cost}"


def unpriced_count(state: RunState) -> int:
    """The number of conversations with turns whose agents reported no cost."""
    return sum(conversation.has_unknown_cost for conversation in state.conversations.values())


def run_cost_text(state: RunState) -> str:
    """The cost of a run, for people."""
    return cost_text(state.budget.dollars, unpriced_count(state), state.budget.estimate)


def has_spent(state: RunState) -> bool:
    """Whether anything was spent, or may have been, because some agents report no cost."""
    spent = state.budget
    known = spent.dollars is not None or spent.estimate is not None
    return bool(spent.input_tokens or spent.output_tokens or known or unpriced_count(state))


def agents_by_cost(conversations: Iterable[Conversation]) -> tuple[set[str], set[str]]:
    """The agents that reported a cost, or whose cost is estimated, and those that had turns and reported none."""
    priced, unpriced = set[str](), set[str]()
    for conversation in conversations:
        if conversation.agent is not None:
            priced |= {conversation.agent} if conversation.priced or conversation.estimate is not None else set()
            unpriced |= {conversation.agent} if conversation.has_unknown_cost else set()
    return priced, unpriced - priced


def cap_warning(dollars: float, tokens: int | None, silent: Sequence[str]) -> str:
    """A warning that a cap on dollars cannot stop these agents, and what can."""
    subject = f"{', '.join(silent)} {'report' if len(silent) > 1 else 'reports'} no cost"
    instead = (
        f"caps.tokens = {tokens} still does, as far as tokens are reported"
        if tokens is not None
        else "caps.tokens would, as far as tokens are reported, and caps.wall_clock always: --set caps.tokens=N"
    )
    return f"caps.dollars = {dollars:g} cannot stop this run: {subject}, so what it spends is unknown; {instead}"
