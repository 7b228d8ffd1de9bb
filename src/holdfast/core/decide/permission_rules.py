"""Whether a person always allows a call in this run. Pure."""

from collections.abc import Mapping

from holdfast.core.conversation.permission import PermissionQuery
from holdfast.core.state import PermissionRule


def find_rule(rules: Mapping[str, PermissionRule], query: PermissionQuery) -> str | None:
    """The rule that allows exactly this: the same kind of tool with the same command and paths."""
    return next((key for key, rule in rules.items() if _allows(rule, query)), None)


def _allows(rule: PermissionRule, query: PermissionQuery) -> bool:
    if rule.command is None and not rule.paths:
        return False
    return (rule.kind or "", rule.command, sorted(rule.paths)) == (query.kind or "", query.command, sorted(query.paths))
