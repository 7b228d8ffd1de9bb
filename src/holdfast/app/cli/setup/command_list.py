"""What can be typed after `holdfast`: asked of the commands themselves, so that it is never out of date."""

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.app.cli.arguments import WrongUsage
from holdfast.app.cli.main import COMMANDS, module_of
from holdfast.core.events import TYPES

_NOBODY_HAS_THIS = "--\N{NULL}"
_WORD = re.compile(r"[a-z][a-z0-9_-]*")


class Value(NamedTuple):
    """What may stand in a place: some of these words, the name of a run, a file."""

    words: tuple[str, ...] = ()
    runs: bool = False
    files: bool = False


class Option(NamedTuple):
    names: tuple[str, ...]
    about: str
    value: Value | None = None  # None for one that takes none


class Command(NamedTuple):
    name: str
    about: str
    options: tuple[Option, ...]
    places: tuple[Value, ...]


def described() -> list[Command]:
    return [_command(name, about) for name, about in COMMANDS.items()]


def _command(name: str, about: str) -> Command:
    actions = list(_actions(name))
    options = [Option(tuple(a.option_strings), a.help or "", _value(a)) for a in actions if a.option_strings]
    places = [_place(action) for action in actions if not action.option_strings]
    return Command(name, about, tuple(options), tuple(places))


def _actions(command: str) -> Iterator[argparse.Action]:
    """A command says what it takes when it is given what it does not."""
    module = __import__(module_of(command), fromlist=["run"])
    try:
        module.run([_NOBODY_HAS_THIS])
    except WrongUsage as wrong:
        yield from wrong.parser._actions  # noqa: SLF001 - argparse has no other way to ask


def _value(action: argparse.Action) -> Value | None:
    return None if action.nargs == 0 else _place(action)


def _place(action: argparse.Action) -> Value:
    named = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        return Value(tuple(map(str, action.choices)))
    if named == "TYPE":
        return Value(tuple(TYPES))
    parts = named.split("|")
    words = tuple(part for part in parts if len(parts) > 1 and _WORD.fullmatch(part))
    return Value(words, "RUN" in parts, not words and bool({"PATH", "FILE", "DIR"}.intersection(parts)))
