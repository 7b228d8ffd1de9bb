"""All commands with their options and arguments, read from their parsers."""

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.app.cli.arguments import UsageError
from holdfast.app.cli.main import COMMANDS, module_of
from holdfast.core.events import TYPES

_UNKNOWN_OPTION = "--\N{NULL}"
_WORD = re.compile(r"[a-z][a-z0-9_-]*")


class CompletionValue(NamedTuple):
    """What can complete an argument: these words, run names, or files."""

    words: tuple[str, ...] = ()
    runs: bool = False
    files: bool = False


class CompletionOption(NamedTuple):
    names: tuple[str, ...]
    about: str
    value: CompletionValue | None = None  # None for a flag


class CompletionCommand(NamedTuple):
    name: str
    about: str
    options: tuple[CompletionOption, ...]
    positionals: tuple[CompletionValue, ...]


def describe_commands() -> list[CompletionCommand]:
    return [_command(name, about) for name, about in COMMANDS.items()]


def _command(name: str, about: str) -> CompletionCommand:
    actions = list(_actions(name))
    options = [
        CompletionOption(tuple(a.option_strings), a.help or "", _option_value(a)) for a in actions if a.option_strings
    ]
    positionals = [_argument_value(action) for action in actions if not action.option_strings]
    return CompletionCommand(name, about, tuple(options), tuple(positionals))


def _actions(command: str) -> Iterator[argparse.Action]:
    """An unknown option makes a command raise `UsageError`, which has its parser."""
    module = __import__(module_of(command), fromlist=["run"])
    try:
        module.run([_UNKNOWN_OPTION])
    except UsageError as error:
        yield from error.parser._actions  # noqa: SLF001 - argparse has no public way


def _option_value(action: argparse.Action) -> CompletionValue | None:
    return None if action.nargs == 0 else _argument_value(action)


def _argument_value(action: argparse.Action) -> CompletionValue:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        return CompletionValue(tuple(map(str, action.choices)))
    if metavar == "TYPE":
        return CompletionValue(tuple(TYPES))
    parts = metavar.split("|")
    words = tuple(part for part in parts if len(parts) > 1 and _WORD.fullmatch(part))
    return CompletionValue(words, "RUN" in parts, not words and bool({"PATH", "FILE", "DIR"}.intersection(parts)))
