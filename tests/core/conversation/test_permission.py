"""What an agent may do without asking, as a table."""

import pytest

from holdfast.core.conversation.permission import PermissionDecision, PermissionQuery, Policy, Rule, decide_permission

READ = PermissionQuery("read", "Read a.py", ("a.py",))
EDIT = PermissionQuery("edit", "Edit src/a.py", ("src/a.py",))
RUN = PermissionQuery("execute", "rm -rf /")


@pytest.mark.parametrize(
    ("wish", "policy", "verdict"),
    [
        (READ, Policy.ASK, "ask"),
        (READ, Policy.ALLOW_READS, "allow"),
        (PermissionQuery("read", "Read", ("/etc/passwd",)), Policy.ALLOW_READS, "ask"),
        (PermissionQuery("read", "Read", ("../secret",)), Policy.ALLOW_READS, "ask"),
        (PermissionQuery("search", "grep"), Policy.ALLOW_READS, "allow"),
        (EDIT, Policy.ALLOW_READS, "ask"),
        (RUN, Policy.ALLOW_READS, "ask"),
        (RUN, Policy.ALLOW_ALL, "allow"),
        (READ, Policy.DENY_ALL, "deny"),
    ],
)
def test_a_policy_decides_what_no_rule_does(wish: PermissionQuery, policy: Policy, verdict: str) -> None:
    assert decide_permission(wish, policy).decision == verdict


@pytest.mark.parametrize(
    ("rule", "wish", "applies"),
    [
        (Rule(then=PermissionDecision.ALLOW, tool="edit", path="src/*"), EDIT, True),
        (Rule(then=PermissionDecision.ALLOW, tool="edit", path="docs/*"), EDIT, False),
        (Rule(then=PermissionDecision.ALLOW, tool="Edit *"), EDIT, True),
        (Rule(then=PermissionDecision.ALLOW, path="src/*"), PermissionQuery("edit", "two", ("src/a", "b")), False),
        (Rule(then=PermissionDecision.DENY, path="src/*"), PermissionQuery("edit", "two", ("src/a", "b")), True),
        (Rule(then=PermissionDecision.ALLOW, path="*"), RUN, False),
        (Rule(then=PermissionDecision.DENY, tool="execute"), RUN, True),
    ],
)
def test_a_rule_applies_to_what_it_says(rule: Rule, wish: PermissionQuery, applies: bool) -> None:
    ruling = decide_permission(wish, Policy.ASK, [rule])
    assert ruling == ((rule.then, "rule 1") if applies else (PermissionDecision.ASK, "policy ask"))


def test_the_first_rule_that_applies_decides() -> None:
    rules = [Rule(then=PermissionDecision.DENY, path="*.lock"), Rule(then=PermissionDecision.ALLOW, tool="edit")]
    assert decide_permission(PermissionQuery("edit", "x", ("uv.lock",)), Policy.ASK, rules).reason == "rule 1"
    assert decide_permission(EDIT, Policy.ASK, rules).reason == "rule 2"


def allowed(command: str | None, pattern: str, title: str = "bench") -> bool:
    rules = [Rule(then=PermissionDecision.ALLOW, command=pattern)]
    return (
        decide_permission(PermissionQuery("execute", title, (), command), Policy.ASK, rules).decision
        is PermissionDecision.ALLOW
    )


@pytest.mark.parametrize(
    ("command", "pattern", "allows"),
    [
        ("npm test", "npm test", True),
        ("npm test -- -k x", "npm test*", True),
        ("npm test; rm -rf .", "npm test*", False),
        ("npm test && rm -rf .", "npm test *", False),
        ("npm test\nrm -rf .", "npm test*", False),
        ("npm test `rm x`", "npm test *", False),
        ("npm test $(rm x)", "npm test *", False),
        ("npm test > /etc/passwd", "npm test *", False),
        ("npm test | tee log", "npm test | tee *", True),
        ("sudo npm test", "npm test", False),
        ("npm testing", "npm test", False),
        ("a.c", "a?c", True),
        ("a;c", "a?c", False),
        (None, "*", False),
    ],
)
def test_allow_rule_matches_the_whole_command(command: str | None, pattern: str, allows: bool) -> None:
    assert allowed(command, pattern) is allows


def test_title_never_counts_as_a_command_to_allow() -> None:
    assert not allowed(None, "npm test", title="npm test")


@pytest.mark.parametrize(
    ("wish", "denied"),
    [
        (PermissionQuery("execute", "bench", (), "rm -rf ."), True),
        (PermissionQuery("execute", "bench", (), "cd x && rm -rf ."), True),
        (PermissionQuery("execute", "bench", (), "echo $(rm -rf .)"), True),
        (PermissionQuery("execute", "bench", (), "ls"), False),
        (PermissionQuery("execute", "rm -rf ."), True),
        (PermissionQuery("other", "rm -rf ."), False),
    ],
)
def test_deny_rule_matches_any_command_of_a_line(wish: PermissionQuery, denied: bool) -> None:
    rules = [Rule(then=PermissionDecision.DENY, command="rm *")]
    assert (decide_permission(wish, Policy.ASK, rules).decision is PermissionDecision.DENY) is denied
