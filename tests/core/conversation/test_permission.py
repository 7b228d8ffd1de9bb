"""What an agent may do without asking, as a table."""

import pytest

from holdfast.core.conversation.permission import Policy, Rule, Verdict, Wish, judge

READ = Wish("read", "Read a.py", ("a.py",))
EDIT = Wish("edit", "Edit src/a.py", ("src/a.py",))
RUN = Wish("execute", "rm -rf /")


@pytest.mark.parametrize(
    ("wish", "policy", "verdict"),
    [
        (READ, Policy.ASK, "ask"),
        (READ, Policy.ALLOW_READS, "allow"),
        (Wish("read", "Read", ("/etc/passwd",)), Policy.ALLOW_READS, "ask"),
        (Wish("read", "Read", ("../secret",)), Policy.ALLOW_READS, "ask"),
        (Wish("search", "grep"), Policy.ALLOW_READS, "allow"),
        (EDIT, Policy.ALLOW_READS, "ask"),
        (RUN, Policy.ALLOW_READS, "ask"),
        (RUN, Policy.ALLOW_ALL, "allow"),
        (READ, Policy.DENY_ALL, "deny"),
    ],
)
def test_a_policy_decides_what_no_rule_does(wish: Wish, policy: Policy, verdict: str) -> None:
    assert judge(wish, policy).verdict == verdict


@pytest.mark.parametrize(
    ("rule", "wish", "applies"),
    [
        (Rule(then=Verdict.ALLOW, tool="edit", path="src/*"), EDIT, True),
        (Rule(then=Verdict.ALLOW, tool="edit", path="docs/*"), EDIT, False),
        (Rule(then=Verdict.ALLOW, tool="Edit *"), EDIT, True),
        (Rule(then=Verdict.ALLOW, path="src/*"), Wish("edit", "two", ("src/a", "b")), False),
        (Rule(then=Verdict.DENY, path="src/*"), Wish("edit", "two", ("src/a", "b")), True),
        (Rule(then=Verdict.ALLOW, path="*"), RUN, False),
        (Rule(then=Verdict.DENY, tool="execute"), RUN, True),
    ],
)
def test_a_rule_applies_to_what_it_says(rule: Rule, wish: Wish, applies: bool) -> None:
    ruling = judge(wish, Policy.ASK, [rule])
    assert ruling == ((rule.then, "rule 1") if applies else (Verdict.ASK, "policy ask"))


def test_the_first_rule_that_applies_decides() -> None:
    rules = [Rule(then=Verdict.DENY, path="*.lock"), Rule(then=Verdict.ALLOW, tool="edit")]
    assert judge(Wish("edit", "x", ("uv.lock",)), Policy.ASK, rules).because == "rule 1"
    assert judge(EDIT, Policy.ASK, rules).because == "rule 2"


def allowed(command: str | None, pattern: str, title: str = "bench") -> bool:
    rules = [Rule(then=Verdict.ALLOW, command=pattern)]
    return judge(Wish("execute", title, (), command), Policy.ASK, rules).verdict is Verdict.ALLOW


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
        (Wish("execute", "bench", (), "rm -rf ."), True),
        (Wish("execute", "bench", (), "cd x && rm -rf ."), True),
        (Wish("execute", "bench", (), "echo $(rm -rf .)"), True),
        (Wish("execute", "bench", (), "ls"), False),
        (Wish("execute", "rm -rf ."), True),
        (Wish("other", "rm -rf ."), False),
    ],
)
def test_deny_rule_matches_any_command_of_a_line(wish: Wish, denied: bool) -> None:
    rules = [Rule(then=Verdict.DENY, command="rm *")]
    assert (judge(wish, Policy.ASK, rules).verdict is Verdict.DENY) is denied
