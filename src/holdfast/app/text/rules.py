"""The rules of a run: what a person always allows in it."""

from collections.abc import Iterator

from holdfast.core.state import RunState


def rule_text(state: RunState, rule_id: str) -> str:
    """Return the kind of tool, and exactly what it may run or change."""
    rule = state.rules[rule_id]
    return f"{rule.kind or ''} {rule.command or ', '.join(rule.paths)}".strip()


def rule_lines(state: RunState, run_id: str) -> Iterator[str]:
    """Yield each rule, and the command that revokes one."""
    for rule_id in state.rules:
        yield f"{rule_id}  {rule_text(state, rule_id)}"
    if state.rules:
        yield f"revoke one with: holdfast deny {run_id} --revoke RULE"
