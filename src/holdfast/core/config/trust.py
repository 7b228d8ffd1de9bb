"""What a repository may not decide on its own: whoever clones it has not read it.

A project file may choose among what the user has, and lower a limit. What would run a command, widen what agents may
do, or raise a limit, holds only when the user trusts the file.
"""

import re
from typing import Any, NamedTuple

from holdfast.core.config.settings import Settings
from holdfast.core.config.toml_lines import Path

_ALWAYS = (
    ("hooks",),
    ("agents",),
    ("validators", "commands"),
    ("permissions",),
    ("approvals",),
    ("publish",),
    ("runtime",),
    ("roles", "*", "runtime"),
)
_LIMITS = (("caps", "*"), ("parallel",), ("reviewers",), ("resume", "auto"), ("resume", "deaths"), ("memory", "*"))
_NAMES = (("agent",), ("workflow",), ("roles", "*", "agent"))
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")  # no file, no playbook, no further words for a command


class Split(NamedTuple):
    """A table in two: what holds in any case, and what only holds when it is trusted, by path."""

    free: dict[str, Any]
    guarded: dict[Path, Any]


def split(table: dict[str, Any], below: Settings) -> Split:
    """`below` is what holds without the table."""
    guarded: dict[Path, Any] = {}

    def free(part: dict[str, Any], path: Path) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in part.items():
            here = (*path, key)
            if _needs_trust(here, value, below):
                guarded[here] = value
            else:
                kept[key] = free(value, here) if isinstance(value, dict) else value
        return kept

    return Split(free(table, ()), guarded)


def _needs_trust(path: Path, value: Any, below: Settings) -> bool:
    if any(_fits(path, pattern) for pattern in _ALWAYS):
        return True
    if any(_fits(path, pattern) for pattern in _NAMES):
        return not _PLAIN.fullmatch(value)
    if any(_fits(path, pattern) for pattern in _LIMITS):
        limit = _held(below, path)
        return limit is not None and bool(value > limit)
    return False


def _held(settings: Settings, path: Path) -> Any:
    held: Any = settings
    for name in path:
        held = getattr(held, str(name))
    return held


def _fits(path: Path, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(want in ("*", part) for part, want in zip(path, pattern, strict=True))
