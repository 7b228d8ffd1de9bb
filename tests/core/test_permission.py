"""What an agent may do without asking, as a table."""

import pytest

from holdfast.core.permission import Policy, Rule, Verdict, Wish, judge

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
