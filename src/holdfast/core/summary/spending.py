"""What was spent. Not every agent reports its cost: unknown is shown as unknown, never as zero."""

from collections.abc import Iterable, Sequence

from holdfast.core.state import Conversation, RunState

_CENT = 0.01


def cost_text(dollars: float | None, unpriced: int) -> str:
    """`$1.20`, `unknown`, or `$1.20 + unknown` when the agents of some conversations reported no cost."""
    if dollars is None:
        return "unknown" if unpriced else "$0.00"
    known = f"<${_CENT}" if 0 < dollars < _CENT / 2 else f"${dollars:,.2f}"
    return f"{known} + unknown" if unpriced else known


def spent_text(tokens: int, dollars: float | None, unpriced: int) -> str:
    """`1,900 tokens, $0.25`; `1,900 tokens, cost unknown`."""
    cost = cost_text(dollars, unpriced)
    return f"{tokens:,} tokens, {cost if dollars is not None or not unpriced else f'cost {cost}'}"


def unpriced_count(state: RunState) -> int:
    """The number of conversations with turns whose agents reported no cost."""
    return sum(conversation.has_unknown_cost for conversation in state.conversations.values())


def run_cost_text(state: RunState) -> str:
    """The cost of a run, for people."""
    return cost_text(state.budget.dollars, unpriced_count(state))


def has_spent(state: RunState) -> bool:
    """Whether anything was spent, or may have been, because some agents report no cost."""
    spent = state.budget
    return bool(spent.input_tokens or spent.output_tokens or spent.dollars is not None or unpriced_count(state))


def agents_by_cost(conversations: Iterable[Conversation]) -> tuple[set[str], set[str]]:
    """The agents that reported a cost, and those that had turns and reported none."""
    priced, unpriced = set[str](), set[str]()
    for conversation in conversations:
        if conversation.agent is not None:
            priced |= {conversation.agent} if conversation.priced else set()
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
