"""What was written, against the types that it should have: each mistake is named by its path.

Beside the types themselves it knows the two things that TOML may write in two ways: a span of time, and a command.
"""

import math
import re
import shlex
from collections.abc import Callable
from difflib import get_close_matches
from enum import Enum, StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.config.durations import seconds
from holdfast.core.config.settings import COMMAND, SPAN
from holdfast.core.config.toml_lines import Path

_T = TypeVar("_T")

_QUOTED = re.compile(r"`([a-z |]+)`")
_WORDS = {
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
_TYPES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", dict: "a table", list: "a list"}


class Misshapen(ValueError):
    """`path` is where, `what` is what is wrong there."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path
        self.what = what


Report = Callable[[Misshapen], None]


def _raise(error: Misshapen) -> None:
    raise error


class _Left(Enum):
    """Stands for what was wrong and was reported: it is left out."""

    OUT = "out"


class Shape(NamedTuple):
    """A type without its wrappings: what it is, how it may be written, and whether there may be nothing."""

    kind: Any
    written: str | None
    optional: bool


def shape_of(annotation: Any) -> Shape:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        found = shape_of(inner)
        written = next((meta.extra["written"] for meta in more if getattr(meta, "extra", None)), found.written)
        return found._replace(written=written)
    if get_origin(annotation) in (Union, UnionType):
        (only,) = (one for one in get_args(annotation) if one is not NoneType)
        return shape_of(only)._replace(optional=True)
    return Shape(annotation, None, optional=False)


def below(kind: Any, key: str | int) -> Any:
    """The type of what a table or a list of this kind holds by a key; `Any` when it is neither."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _types_of(kind)[str(key)]
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    return get_args(kind)[0] if get_origin(kind) is tuple else Any


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def type_at(annotation: Any, path: Path) -> Any:
    for key in path:
        annotation = below(shape_of(annotation).kind, key)
    return annotation


def shaped(value: Any, annotation: Any, path: Path = (), *, whole: bool, report: Report = _raise) -> Any:
    """The value as the types want it, for `msgspec.convert`. What is required must be there when it is the `whole`.

    The first mistake raises `Misshapen`; with a `report` that returns, every mistake is reported, and what is wrong is
    left out of the value.
    """
    try:
        return _shaped(value, annotation, path, report, whole=whole)
    except Misshapen as error:
        report(error)
        return _Left.OUT


def _shaped(value: Any, annotation: Any, path: Path, report: Report, *, whole: bool) -> Any:
    kind, written, optional = shape_of(annotation)
    if value is None and optional:
        return None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(value, kind, path, report, whole=whole)
    if get_origin(kind) is dict:
        of = get_args(kind)[1]
        return _sound(_table(value, path), lambda _: of, path, report, whole=whole)
    if get_origin(kind) is tuple:
        return _list(value, kind, written, path, report)
    return _scalar(value, annotation, path)


def _struct(value: Any, kind: type[msgspec.Struct], path: Path, report: Report, *, whole: bool) -> dict[str, Any]:
    hints = _types_of(kind)
    table = _table(value, path)
    for key in table:
        if key not in hints:
            report(Misshapen((*path, key), f"there is no such key; {instead_of(key, hints)}"))
    if whole:
        for field in msgspec.structs.fields(kind):
            if field.required and field.name not in table:
                report(Misshapen(path, f"the key {field.name!r} is missing"))
    known = {key: one for key, one in table.items() if key in hints}
    return _sound(known, lambda key: hints[key], path, report, whole=whole)


def _sound(
    table: dict[str, Any], type_of: Callable[[str], Any], path: Path, report: Report, *, whole: bool
) -> dict[str, Any]:
    found = {key: shaped(one, type_of(key), (*path, key), whole=whole, report=report) for key, one in table.items()}
    return {key: one for key, one in found.items() if one is not _Left.OUT}


def _list(value: Any, kind: Any, written: str | None, path: Path, report: Report) -> list[Any]:
    if written == COMMAND["written"] and isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise Misshapen(path, f"no command: {str(error).lower()}") from None
    found = _must_be(list, value, path)
    if written == COMMAND["written"] and not found:
        raise Misshapen(path, "a command has at least the name of its program")
    of = get_args(kind)[0]
    elements = [shaped(one, of, (*path, number), whole=True, report=report) for number, one in enumerate(found)]
    return [one for one in elements if one is not _Left.OUT]


def _scalar(value: Any, annotation: Any, path: Path) -> Any:
    shape = shape_of(annotation)
    if shape.written == SPAN["written"] and isinstance(value, str):
        try:
            return seconds(value)
        except ValueError as error:
            raise Misshapen(path, str(error)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise Misshapen(path, f"{value} is no number to work with")
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        raise Misshapen(path, _worded(str(error), value, shape)) from None
    return value


def _worded(message: str, value: Any, shape: Shape) -> str:
    """What msgspec says, in the words of people."""
    if allowed := choices(shape.kind):
        return f"{value!r} is not allowed; {instead_of(str(value), allowed)}"
    if shape.written == SPAN["written"] and type(value) not in (float, int):
        return f"expected a span of time, as 90m or a number of seconds, got {_named(value)}"
    expected = message.replace("Expected", "expected").replace(" | null", "")
    return _QUOTED.sub(lambda match: " or ".join(_WORDS.get(word, word) for word in match[1].split(" | ")), expected)


def choices(kind: Any) -> list[str]:
    """The only values of a type that has few."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [*kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []


def instead_of(word: str, allowed: Any) -> str:
    """What was probably meant, else all that there is."""
    near = get_close_matches(word, allowed, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(allowed)}"


def _table(value: Any, path: Path) -> dict[str, Any]:
    table = _must_be(dict, value, path)
    for key in table:
        if not isinstance(key, str):  # as YAML has them
            raise Misshapen(path, f"{key!r} is no key: keys are names, written as text")
    return table


def _must_be(kind: type[_T], value: Any, path: Path) -> _T:
    if not isinstance(value, kind):
        raise Misshapen(path, f"expected {_TYPES[kind]}, got {_named(value)}")
    return value


def _named(value: Any) -> str:
    return _TYPES.get(type(value)) or ("nothing" if value is None else "a date or time")
