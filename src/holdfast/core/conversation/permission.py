"""Permission rules: decide what an agent may do without asking. Pure."""

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

READ_KINDS = frozenset({"read", "search", "think"})
_OPERATOR_CHARS = r";&|<>$`(){}\n\r\x00"  # of the shell, for a character class
_OPERATORS = re.compile(f"[{_OPERATOR_CHARS}]+")


class Policy(StrEnum):
    ASK = "ask"
    ALLOW_READS = "allow-reads"
    ALLOW_ALL = "allow-all"
    DENY_ALL = "deny-all"


class PermissionDecision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Applies to tools by kind or title, to paths relative to the worktree, and to commands; patterns such as `src/*`.

    An `allow` for paths applies when all paths of a call match; a `deny` when any path matches. An `allow` for commands
    must match the whole command, and its `*` does not match shell operators: `npm test*` does not allow
    `npm test; rm -rf .`. A `deny` applies when any command of the line matches.
    """

    then: PermissionDecision
    tool: str = "*"
    path: str | None = None
    command: str | None = None


class PermissionConfig(NamedTuple):
    """How requests are decided without a person. `hooks` are commands that may block a call: JSON in, exit code out.

    A hook that does not answer within `hook_timeout_s` blocks the call.
    """

    policy: Policy = Policy.ASK
    rules: tuple[Rule, ...] = ()
    hooks: tuple[tuple[str, ...], ...] = ()
    hook_timeout_s: float = 60.0


class PermissionQuery(NamedTuple):
    """What a tool call will do. Paths are relative to the worktree; outside paths begin with `..` or `/`."""

    kind: str
    title: str
    paths: tuple[str, ...] = ()
    command: str | None = None


class Ruling(NamedTuple):
    decision: PermissionDecision
    reason: str


def decide_permission(query: PermissionQuery, policy: Policy, rules: Sequence[Rule] = ()) -> Ruling:
    """The first rule that applies decides; then the policy."""
    for number, rule in enumerate(rules, 1):
        if _applies(rule, query):
            return Ruling(rule.then, f"rule {number}")
    match policy:
        case Policy.ALLOW_ALL:
            return Ruling(PermissionDecision.ALLOW, f"policy {policy}")
        case Policy.DENY_ALL:
            return Ruling(PermissionDecision.DENY, f"policy {policy}")
        case Policy.ALLOW_READS if query.kind in READ_KINDS and not any(map(_is_outside, query.paths)):
            return Ruling(PermissionDecision.ALLOW, f"policy {policy}")
        case _:
            return Ruling(PermissionDecision.ASK, f"policy {policy}")


def _applies(rule: Rule, query: PermissionQuery) -> bool:
    if not (fnmatchcase(query.kind, rule.tool) or fnmatchcase(query.title, rule.tool)):
        return False
    return _path_applies(rule, query) and _command_applies(rule, query)


def _path_applies(rule: Rule, query: PermissionQuery) -> bool:
    pattern = rule.path
    if pattern is None:
        return True
    matches = [fnmatchcase(path, pattern) for path in query.paths]
    return any(matches) if rule.then is PermissionDecision.DENY else bool(matches) and all(matches)


def _command_applies(rule: Rule, query: PermissionQuery) -> bool:
    pattern = rule.command
    if pattern is None:
        return True
    command = query.command
    if rule.then is PermissionDecision.ALLOW:
        return command is not None and _allowed_pattern(pattern).fullmatch(command) is not None
    if command is None and query.kind == "execute":
        command = query.title  # nothing else is known: enough to deny, never to allow
    parts = [command, *_OPERATORS.split(command)] if command is not None else []
    return any(fnmatchcase(part.strip(), pattern) for part in parts)


def _allowed_pattern(pattern: str) -> re.Pattern[str]:
    """A command pattern in which `*` and `?` do not match shell operators."""
    wild = {"*": f"[^{_OPERATOR_CHARS}]*", "?": f"[^{_OPERATOR_CHARS}]"}
    return re.compile("".join(wild.get(char) or re.escape(char) for char in pattern))


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "..")) and not path.startswith("...")
