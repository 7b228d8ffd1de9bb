"""What an agent may do without asking: a policy and its rules, decided without side effects."""

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

READS = frozenset({"read", "search", "think"})
_OPERATOR_CHARS = r";&|<>$`(){}\n\r\x00"  # of the shell, inside of a character class
_OPERATORS = re.compile(f"[{_OPERATOR_CHARS}]+")


class Policy(StrEnum):
    ASK = "ask"
    ALLOW_READS = "allow-reads"
    ALLOW_ALL = "allow-all"
    DENY_ALL = "deny-all"


class Verdict(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Applies to tools by kind or title, to paths relative to the worktree, and to commands; patterns such as `src/*`.

    A rule about paths applies when all the paths of a call match, so that an `allow` is never wider than it says;
    a `deny` already when one does. A rule about a command has to match the whole command, and in an `allow` the `*`
    stands for no shell operator: `npm test*` does not allow `npm test; rm -rf .`. A `deny` applies already when it
    matches one of the commands of a line.
    """

    then: Verdict
    tool: str = "*"
    path: str | None = None
    command: str | None = None


class Consent(NamedTuple):
    """What is decided without a person. `hooks` are commands that may veto a tool call: JSON in, exit code out.

    A hook that does not answer within `patience` seconds is against it.
    """

    policy: Policy = Policy.ASK
    rules: tuple[Rule, ...] = ()
    hooks: tuple[tuple[str, ...], ...] = ()
    patience: float = 60.0


class Wish(NamedTuple):
    """What a tool call is about to do. Paths are relative to the worktree; one outside begins with `..` or `/`."""

    kind: str
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None


class Ruling(NamedTuple):
    verdict: Verdict
    because: str


def judge(wish: Wish, policy: Policy, rules: Sequence[Rule] = ()) -> Ruling:
    """The first rule that applies decides; then the policy."""
    for number, rule in enumerate(rules, 1):
        if _applies(rule, wish):
            return Ruling(rule.then, f"rule {number}")
    match policy:
        case Policy.ALLOW_ALL:
            return Ruling(Verdict.ALLOW, f"policy {policy}")
        case Policy.DENY_ALL:
            return Ruling(Verdict.DENY, f"policy {policy}")
        case Policy.ALLOW_READS if wish.kind in READS and not any(map(_is_outside, wish.paths)):
            return Ruling(Verdict.ALLOW, f"policy {policy}")
        case _:
            return Ruling(Verdict.ASK, f"policy {policy}")


def _applies(rule: Rule, wish: Wish) -> bool:
    if not (fnmatchcase(wish.kind, rule.tool) or fnmatchcase(wish.title, rule.tool)):
        return False
    return _path_applies(rule, wish) and _command_applies(rule, wish)


def _path_applies(rule: Rule, wish: Wish) -> bool:
    pattern = rule.path
    if pattern is None:
        return True
    matches = [fnmatchcase(path, pattern) for path in wish.paths]
    return any(matches) if rule.then is Verdict.DENY else bool(matches) and all(matches)


def _command_applies(rule: Rule, wish: Wish) -> bool:
    pattern = rule.command
    if pattern is None:
        return True
    command = wish.command
    if rule.then is Verdict.ALLOW:
        return command is not None and _allowed_pattern(pattern).fullmatch(command) is not None
    if command is None and wish.kind == "execute":
        command = wish.title  # all that is known of it: enough to refuse it, never to allow it
    parts = [command, *_OPERATORS.split(command)] if command is not None else []
    return any(fnmatchcase(part.strip(), pattern) for part in parts)


def _allowed_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern of a command in which `*` and `?` stand for no shell operator; those have to be written out."""
    wild = {"*": f"[^{_OPERATOR_CHARS}]*", "?": f"[^{_OPERATOR_CHARS}]"}
    return re.compile("".join(wild.get(one) or re.escape(one) for one in pattern))


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "..")) and not path.startswith("...")
