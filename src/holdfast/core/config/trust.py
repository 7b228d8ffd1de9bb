"""Which settings of a repository need the user's trust: people clone repositories without reading them.

A project file may choose among the user's own agents and workflows, and lower a limit. Settings that run a command,
widen what agents may do, or raise a limit apply only when the user trusts the file.
"""

import re
from typing import Any, NamedTuple

from holdfast.core.config.settings import Settings
from holdfast.core.config.toml_lines import KeyPath

_ALWAYS_GUARDED = (
    ("hooks",),
    ("agents",),
    ("worktree",),
    ("validators", "commands"),
    ("permissions",),
    ("approvals",),
    ("publish",),
    ("runtime",),
    ("serve",),
    ("quota",),
    ("outage",),
    ("disk",),
    ("store",),
    ("notify",),
    ("prices",),
    ("telemetry",),
    ("retention",),
    ("cluster",),
    ("roles", "*", "runtime"),
)
_LIMITS = (
    ("caps", "*"),
    ("budgets", "*"),
    ("parallel",),
    ("reviewers",),
    ("resume", "auto"),
    ("resume", "deaths"),
    ("memory", "*"),
)
_NAME_SETTINGS = (("agent",), ("workflow",), ("roles", "*", "agent"), ("roles", "*", "fallback"))
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")  # not a file, a playbook, or a command with arguments


class TrustSplit(NamedTuple):
    """A table in two parts: settings that always apply, and those that need trust, by path."""

    unguarded: dict[str, Any]
    guarded: dict[KeyPath, Any]


def split_by_trust(table: dict[str, Any], base: Settings) -> TrustSplit:
    """Split a table. `base` are the settings without the table, to compare limits with."""
    guarded: dict[KeyPath, Any] = {}

    def keep_unguarded(part: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in part.items():
            here = (*path, key)
            if _needs_trust(here, value, base):
                guarded[here] = value
            else:
                kept[key] = keep_unguarded(value, here) if isinstance(value, dict) else value
        return kept

    return TrustSplit(keep_unguarded(table, ()), guarded)


def _needs_trust(path: KeyPath, value: Any, base: Settings) -> bool:
    if any(_matches(path, pattern) for pattern in _ALWAYS_GUARDED):
        return True
    if any(_matches(path, pattern) for pattern in _NAME_SETTINGS):
        return not all(_PLAIN_NAME.fullmatch(name) for name in ([value] if isinstance(value, str) else value))
    if any(_matches(path, pattern) for pattern in _LIMITS):
        limit = _setting_at(base, path)
        return limit is not None and bool(value > limit)
    return False


def _setting_at(settings: Settings, path: KeyPath) -> Any:
    value: Any = settings
    for name in path:
        value = getattr(value, str(name))
    return value


def _matches(path: KeyPath, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(want in ("*", part) for part, want in zip(path, pattern, strict=True))
