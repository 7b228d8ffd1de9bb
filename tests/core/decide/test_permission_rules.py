"""What a person always allows in a run: exactly the call that was asked about."""

import pytest

from holdfast.core.conversation.permission import PermissionQuery
from holdfast.core.decide.permission_rules import find_rule
from holdfast.core.state import PermissionRule

RULES = {
    "r1": PermissionRule("execute", "npm test"),
    "r2": PermissionRule("edit", None, ("a.txt", "b.txt")),
    "r3": PermissionRule("other"),
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (PermissionQuery("execute", "Run", command="npm test"), "r1"),
        (PermissionQuery("execute", "Run", command="npm test; rm -rf ."), None),
        (PermissionQuery("execute", "Run", ("a.txt",), "npm test"), None),
        (PermissionQuery("other", "Run", command="npm test"), None),
        (PermissionQuery("edit", "Edit", ("b.txt", "a.txt")), "r2"),
        (PermissionQuery("edit", "Edit", ("a.txt",)), None),
        (PermissionQuery("edit", "Edit", ("a.txt", "b.txt", "../c.txt")), None),
        (PermissionQuery("other", "Anything"), None),
    ],
)
def test_rule(query: PermissionQuery, expected: str | None) -> None:
    assert find_rule(RULES, query) == expected
