"""What was spent, where not every agent tells its cost. Unknown is a value of its own, and never zero."""

from collections.abc import Iterable, Sequence

from holdfast.core.state import Conversation, RunState

_CENT = 0.01


def cost_text(dollars: float | None, unpriced: int) -> str:
    """For people: `$1.20`, `unknown`, or `$1.20 + unknown` when the agents of some conversations told no cost."""
    if dollars is None:
        return "unknown" if unpriced else "$0.00"
    known = f"<${_CENT}" if 0 < dollars < _CENT / 2 else f"${dollars:,.2f}"
    return f"{known} + unknown" if unpriced else known


def spent_text(tokens: int, dollars: float | None, unpriced: int) -> str:
    """`1,900 tokens, $0.25`; `1,900 tokens, cost unknown`."""
    cost = cost_text(dollars, unpriced)
    return f"{tokens:,} tokens, {cost if dollars is not None or not unpriced else f'cost {cost}'}"


def unpriced_in(state: RunState) -> int:
    """The conversations that had turns and whose agents told no cost."""
    return sum(talk.unpriced for talk in state.conversations.values())


def cost_of(state: RunState) -> str:
    """What a run has cost, for people."""
    return cost_text(state.budget.dollars, unpriced_in(state))


def has_spent(state: RunState) -> bool:
    """Something was spent, or may have been: of some agents nobody knows."""
    spent = state.budget
    return bool(spent.input_tokens or spent.output_tokens or spent.dollars is not None or unpriced_in(state))


def agents_by_cost(conversations: Iterable[Conversation]) -> tuple[set[str], set[str]]:
    """The agents that told a cost in a turn of theirs, and those that had turns and told none."""
    told, silent = set[str](), set[str]()
    for talk in conversations:
        if talk.agent is not None:
            told |= {talk.agent} if talk.priced else set()
            silent |= {talk.agent} if talk.unpriced else set()
    return told, silent - told


def cap_warning(dollars: float, tokens: int | None, silent: Sequence[str]) -> str:
    """That a cap on dollars cannot stop these agents, and what can."""
    who = f"{', '.join(silent)} {'report' if len(silent) > 1 else 'reports'} no cost"
    instead = (
        f"caps.tokens = {tokens} still does, as far as tokens are reported"
        if tokens is not None
        else "caps.tokens would, as far as tokens are reported, and caps.wall_clock always: --set caps.tokens=N"
    )
    return f"caps.dollars = {dollars:g} cannot stop this run: {who}, so what it spends is unknown; {instead}"
