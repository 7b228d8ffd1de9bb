"""Validate values against types; each mistake names its path.

It also accepts the two spellings that TOML allows for a duration and for a command.
"""

import math
import re
import shlex
from collections.abc import Callable
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.config.durations import parse_duration
from holdfast.core.config.settings import COMMAND, SPAN
from holdfast.core.config.toml_lines import KeyPath

_T = TypeVar("_T")

_QUOTED = re.compile(r"`([a-z |]+)`")
_TYPE_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a table",
    "array": "a list",
    "datetime": "a date",
    "date": "a date",
    "time": "a time of day",
    "null": "nothing",
}
_PYTHON_TYPE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a table",
    list: "a list",
}


class InvalidValue(ValueError):
    """`problem` is the mistake at `path`."""

    def __init__(self, path: KeyPath, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


ErrorReporter = Callable[[InvalidValue], None]


def _raise(error: InvalidValue) -> None:
    raise error


class _Omitted(Enum):
    """Stands for an invalid value that was reported and is left out."""

    VALUE = "out"


class UnwrappedType(NamedTuple):
    """A type without its annotations: the plain type, its alternative spelling, and whether it may be None."""

    kind: Any
    written: str | None
    optional: bool


def unwrap_type(annotation: Any) -> UnwrappedType:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        found = unwrap_type(inner)
        written = next((meta.extra["written"] for meta in more if getattr(meta, "extra", None)), found.written)
        return found._replace(written=written)
    if get_origin(annotation) in (Union, UnionType):
        (only,) = (member for member in get_args(annotation) if member is not NoneType)
        return unwrap_type(only)._replace(optional=True)
    return UnwrappedType(annotation, None, optional=False)


def child_type(kind: Any, key: str | int) -> Any:
    """The type of the value at a key of a table or list; `Any` for other types."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _field_types(kind)[str(key)]
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    return get_args(kind)[0] if get_origin(kind) is tuple else Any


@cache
def _field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def type_at(annotation: Any, path: KeyPath) -> Any:
    for key in path:
        annotation = child_type(unwrap_type(annotation).kind, key)
    return annotation


def validate_value(
    value: Any, annotation: Any, path: KeyPath = (), *, require_all: bool, report: ErrorReporter = _raise
) -> Any:
    """The value in the form that `msgspec.convert` accepts. With `require_all`, required keys must be present.

    The first mistake raises `InvalidValue`. With a `report` that returns, every mistake is reported, and invalid parts
    are left out of the value.
    """
    try:
        return _validate_value(value, annotation, path, report, require_all=require_all)
    except InvalidValue as error:
        report(error)
        return _Omitted.VALUE


def _validate_value(value: Any, annotation: Any, path: KeyPath, report: ErrorReporter, *, require_all: bool) -> Any:
    kind, written, optional = unwrap_type(annotation)
    if value is None and optional:
        return None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _validate_struct(value, kind, path, report, require_all=require_all)
    if get_origin(kind) is dict:
        entry_type = get_args(kind)[1]
        table = _require_table(value, path)
        return _validate_entries(table, lambda _: entry_type, path, report, require_all=require_all)
    if get_origin(kind) is tuple:
        return _validate_list(value, kind, written, path, report)
    return _validate_scalar(value, annotation, path)


def _validate_struct(
    value: Any, kind: type[msgspec.Struct], path: KeyPath, report: ErrorReporter, *, require_all: bool
) -> dict[str, Any]:
    hints = _field_types(kind)
    table = _require_table(value, path)
    for key in table:
        if key not in hints:
            report(InvalidValue((*path, key), f"there is no such key; {suggest_instead(key, hints)}"))
    if require_all:
        for name in _required_keys(kind):
            if name not in table:
                report(InvalidValue(path, f"the key {name!r} is missing"))
    known = {key: item for key, item in table.items() if key in hints}
    return _validate_entries(known, lambda key: hints[key], path, report, require_all=require_all)


def _required_keys(kind: type[msgspec.Struct]) -> list[str]:
    """The fields without a default. `msgspec.structs.fields` would evaluate the annotation of each."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__  # the latter of the last fields only
    optional = zip(reversed(names), reversed(defaults), strict=False)
    without = len(names) - len(defaults)
    return [*names[:without], *reversed([name for name, default in optional if default is msgspec.NODEFAULT])]


def _validate_entries(
    table: dict[str, Any], type_of: Callable[[str], Any], path: KeyPath, report: ErrorReporter, *, require_all: bool
) -> dict[str, Any]:
    validated = {
        key: validate_value(item, type_of(key), (*path, key), require_all=require_all, report=report)
        for key, item in table.items()
    }
    return {key: item for key, item in validated.items() if item is not _Omitted.VALUE}


def _validate_list(value: Any, kind: Any, written: str | None, path: KeyPath, report: ErrorReporter) -> list[Any]:
    if written == COMMAND["written"] and isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise InvalidValue(path, f"not a command: {str(error).lower()}") from None
    items = _require_type(list, value, path)
    if written == COMMAND["written"] and not items:
        raise InvalidValue(path, "a command has at least the name of its program")
    item_type = get_args(kind)[0]
    validated = [
        validate_value(item, item_type, (*path, number), require_all=True, report=report)
        for number, item in enumerate(items)
    ]
    return [item for item in validated if item is not _Omitted.VALUE]


def _validate_scalar(value: Any, annotation: Any, path: KeyPath) -> Any:
    shape = unwrap_type(annotation)
    if shape.written == SPAN["written"] and isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise InvalidValue(path, str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidValue(path, f"{value} is not a finite number")
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        raise InvalidValue(path, _readable_error(str(error), value, shape)) from None
    return value


def _readable_error(message: str, value: Any, shape: UnwrappedType) -> str:
    """The message of msgspec, with the type names that the documentation uses."""
    if allowed := allowed_values(shape.kind):
        return f"{value!r} is not allowed; {suggest_instead(str(value), allowed)}"
    if shape.written == SPAN["written"] and type(value) not in (float, int):
        return f"expected a duration such as 90m or a number of seconds, got {_type_name(value)}"
    expected = message.replace("Expected", "expected").replace(" | null", "")
    return _QUOTED.sub(
        lambda match: " or ".join(_TYPE_NAMES.get(word, word) for word in match[1].split(" | ")), expected
    )


def allowed_values(kind: Any) -> list[str]:
    """The values of a literal or enum type; empty for other types."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [*kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


def suggest_instead(word: str, allowed: Any) -> str:
    """The allowed word that is closest, else all allowed words."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and few words are wrong

    near = get_close_matches(word, allowed, n=1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(allowed)}"


def _require_table(value: Any, path: KeyPath) -> dict[str, Any]:
    table = _require_type(dict, value, path)
    for key in table:
        if not isinstance(key, str):  # YAML has other keys too
            raise InvalidValue(path, f"{key!r} is not a key; write keys as text")
    return table


def _require_type(kind: type[_T], value: Any, path: KeyPath) -> _T:
    if not isinstance(value, kind):
        raise InvalidValue(path, f"expected {_PYTHON_TYPE_NAMES[kind]}, got {_type_name(value)}")
    return value


def _type_name(value: Any) -> str:
    return _PYTHON_TYPE_NAMES.get(type(value)) or ("nothing" if value is None else "a date or time")
