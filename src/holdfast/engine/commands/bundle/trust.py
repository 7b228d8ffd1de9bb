"""What in a bundle decides which commands run here. A resumed run obeys its log, and this log is somebody else's.

Settings need trust as those of a cloned repository do. So do the names of agents that name a file, or add arguments to
a command, the permissions that a person gave for the rest of the run, and everything that git would take as an option.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.core.config.settings import Settings
from holdfast.core.config.toml_lines import format_toml_path, parse_key
from holdfast.core.config.trust import split_by_trust
from holdfast.core.events.chat import RuleAdded
from holdfast.core.events.session import SettingsChosen
from holdfast.core.events.task import TaskStarted
from holdfast.core.log.codec import DECODE_ERRORS

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
_FOR_GIT = frozenset(
    (
        "base",
        "branch",
        "commit",
        "files",
        "into",
        "last",
        "merged_into",
        "ref",
        "snapshot",
        "target",
        "tip",
        "url",
        "was",
    )
)


class _AnyLine(msgspec.Struct):
    type: str = ""
    data: Any = None


def needing_trust(lines: Iterable[bytes], base: Settings) -> Iterator[str]:
    """Yield what needs trust in lines of a log or an inbox. `base` are the user's settings, to compare limits with."""
    for raw in lines:
        try:
            line = msgspec.json.decode(raw, type=_AnyLine)
        except DECODE_ERRORS:
            continue  # a line that cannot be decoded decides nothing
        if line.type == SettingsChosen.type:
            yield from _guarded_settings(line.data, base)
        elif line.type == RuleAdded.type:
            yield f"a permission for the rest of the run: {msgspec.json.encode(line.data).decode()}"
        yield from _unusual_names(_without_label(line))


def _without_label(line: _AnyLine) -> Any:
    """The agent of a started task is a text for people ("worker of T-1"), which starts nothing."""
    if line.type == TaskStarted.type and isinstance(line.data, dict):
        return {key: value for key, value in line.data.items() if key != "agent"}
    return line.data


def _guarded_settings(data: Any, base: Settings) -> Iterator[str]:
    """Yield the settings of the run, and of the run that an interview prepares."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "flags" and isinstance(value, dict):
                yield from (f"{name} = {found!r}" for name, found in _guarded_flags(value, base))
            else:
                yield from _guarded_settings(value, base)


def _guarded_flags(flags: dict[str, Any], base: Settings) -> Iterator[tuple[str, Any]]:
    for name, value in flags.items():
        table = value
        try:
            for part in reversed(parse_key(name)):
                table = {part: table}
            guarded = split_by_trust(table, base).guarded
        except (ValueError, TypeError, AttributeError):  # not a setting of this Holdfast
            guarded = {(name,): value}
        yield from ((format_toml_path(path), found) for path, found in guarded.items())


def _unusual_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, str) and _is_unusual(key, each):
                yield f"{key} = {each!r}"
            yield from _unusual_names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _unusual_names(each)


def _is_unusual(key: str, value: str) -> bool:
    if key in ("agent", "remote"):
        return _PLAIN_NAME.fullmatch(value) is None
    return key in _FOR_GIT and value.startswith("-")
