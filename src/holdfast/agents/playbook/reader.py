"""From a file to a playbook; or one line that says where it is wrong, what is wrong, and what is allowed."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
from msgspec import inspect

from holdfast.agents.playbook.format import (
    ConfigOption,
    OneOf,
    Playbook,
    PlaybookChoice,
    PlaybookChoices,
    PlaybookTurn,
    Step,
)
from holdfast.agents.playbook.variables import name_error, names_in
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import KeyPath, YamlDocument, format_yaml_path, read_yaml

_ERROR_PLACE = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_PATH_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN_FIELD = re.compile(r"^Object contains unknown field `(.*)`$")
_MISSING_FIELD = re.compile(r"^Object missing required field `(.*)`$")
_TYPE_NAMES = re.compile(r"`([a-z |]+)`")
_TYPE_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "object": "a mapping",
    "array": "a list",
    "bytes": "binary data",
}


def read_playbook(file: str) -> Playbook:
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not UTF-8 at byte {error.start}: a playbook is YAML in UTF-8") from None
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; a playbook is a YAML file") from None
    return parse_playbook(text, file)


def parse_playbook(text: str, file: str) -> Playbook:
    """Parse a playbook. `file` is only for messages."""
    if text.startswith("{") and (playbook := _parse_json(text)) is not None:
        return playbook
    document = read_yaml(text, file)
    if document.root is None:
        raise BadInput(f"{file}:1: empty; a playbook has {_join_names(Playbook.__struct_fields__)}")
    try:
        playbook = msgspec.convert(document.value, Playbook)
    except msgspec.ValidationError as error:
        _reject(file, document, *_explain(str(error)))
    for path, what in _mistakes(playbook, ()):
        _reject(file, document, path, what)
    for path, what in _misplaced_steps(playbook):
        _reject(file, document, path, what)
    return playbook


def _parse_json(text: str) -> Playbook | None:
    """JSON is YAML, and needs no slow import. None for all that is not a valid playbook: YAML explains it."""
    with suppress(ValueError, RecursionError, msgspec.ValidationError):
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        json.dumps(value, ensure_ascii=False).encode()  # half of a character is not text
        playbook = msgspec.convert(value, Playbook)
        if not any(_mistakes(playbook, ())) and not any(_misplaced_steps(playbook)):
            return playbook
    return None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(unique := dict(pairs)) < len(pairs):
        raise ValueError("a duplicate key")
    return unique


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _reject(file: str, document: YamlDocument, path: KeyPath, what: str) -> NoReturn:
    place = format_yaml_path(path)
    raise BadInput(f"{file}:{document.line(path)}: {f'{place}: ' if place else ''}{what}")


# --- msgspec's errors, in terms of the format ----------------------------------------------------------


def _explain(message: str) -> tuple[KeyPath, str]:
    match = _ERROR_PLACE.match(message)
    assert match is not None
    path: KeyPath = tuple(name or int(index) for name, index in _PATH_PART.findall(match["path"] or ""))
    what = match["what"]
    kinds = list(_kinds_at(inspect.type_info(Playbook), path))
    if match["key"]:
        return path, "a key here must be text"
    if unknown := _UNKNOWN_FIELD.match(what):
        keys = [field.encode_name for kind in kinds if isinstance(kind, inspect.StructType) for field in kind.fields]
        return (*path, unknown[1]), f"there is no such key; allowed here: {_join_names(sorted(keys))}"
    if missing := _MISSING_FIELD.match(what):
        return path, f"the key {missing[1]!r} is missing"
    allowed = sorted(str(value) for kind in kinds if isinstance(kind, inspect.LiteralType) for value in kind.values)
    if what.startswith("Invalid enum value"):
        value = what.removeprefix("Invalid enum value ")
        more = " (or a mapping)" if any(isinstance(kind, inspect.StructType) for kind in kinds) else ""
        return path, f"{value} is not allowed; allowed: {_join_names(allowed)}{more}"
    what = _TYPE_NAMES.sub(
        lambda match: " or ".join(_TYPE_WORDS.get(word, word) for word in match[1].split(" | ")), what
    )
    if allowed:
        what += f" (allowed: {_join_names(allowed)})"
    return path, what[0].lower() + what[1:]


def _kinds_at(kind: inspect.Type, path: KeyPath) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        for alternative in kind.types:
            yield from _kinds_at(alternative, path)
    elif not path:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == path[0]:
                yield from _kinds_at(field.type, path[1:])
    elif isinstance(kind, inspect.ListType):
        yield from _kinds_at(kind.item_type, path[1:])


# --- what the types cannot say ------------------------------------------------------------------------


def _mistakes(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        for name in names_in(value):
            if error := name_error(name):
                yield path, error
    elif isinstance(value, msgspec.Struct):
        yield from _mistakes_of(value, path)
        for field in value.__struct_fields__:
            yield from _mistakes(getattr(value, field), (*path, field))
    elif isinstance(value, (list, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _mistakes(item, (*path, key))


def _mistakes_of(value: msgspec.Struct, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, OneOf) and len(value.keys()) != 1:
        keys = value.keys()
        kind = "step" if isinstance(value, Step) else "piece of content"
        found = (
            f"this one has {_join_names(keys)}" if keys else f"allowed: {_join_names(sorted(value.__struct_fields__))}"
        )
        yield path, f"a {kind} is a mapping with one key; {found}"
    if isinstance(value, PlaybookTurn) and value.when is not None:
        try:
            re.compile(value.when)
        except re.error as error:
            yield (*path, "when"), f"not a regular expression: {error}"
    if isinstance(value, PlaybookChoices):
        yield from _unavailable_choice(value.available, path, current=value.current)
    if isinstance(value, ConfigOption):
        if value.available is not None:
            yield from _unavailable_choice(value.available, path, current=value.current)
        elif isinstance(value.current, str):
            yield (*path, "current"), "without `available` the option is a switch: true or false"


def _unavailable_choice(
    available: list[PlaybookChoice | str], path: KeyPath, *, current: str | bool
) -> Iterator[tuple[KeyPath, str]]:
    ids = [choice if isinstance(choice, str) else choice.id for choice in available]
    if current not in ids:
        yield (*path, "current"), f"{current!r} is not among the available; allowed: {_join_names(ids)}"


def _misplaced_steps(playbook: Playbook) -> Iterator[tuple[KeyPath, str]]:
    for index, step in enumerate(playbook.start):
        if step.key not in Step.AT_START:
            allowed = _join_names(sorted(Step.AT_START))
            yield ("start", index, step.key), f"not possible before there is a session; allowed: {allowed}"


def _join_names(names: Any) -> str:
    return ", ".join(names) or "nothing"
