"""What a phase asks of the document that its agent hands in: headings of prose, or the JSON schema of data.

Whoever has to write it anew is told every place that does not fit, by line and path.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.work.workflow import PhaseSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import Document, Path, read_data, spelled

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MOST = 10  # mistakes that are told at once
_LONGEST = 300  # characters of one
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)


def misfits(text: str, spec: PhaseSpec) -> list[str]:
    """What is wrong with a document, a line each; nothing when it is what the phase asks for."""
    if spec.schema is None:
        there = {heading.strip().lower() for heading in _HEADING.findall(text)}
        return [f"it lacks the heading {wanted!r}" for wanted in spec.sections if wanted.lower() not in there]
    try:
        data = read_data(text, "line")
    except BadInput as error:
        return [str(error).replace("line:", "line ", 1)]
    found = sorted(_validator(spec.schema).iter_errors(data.value), key=lambda one: _line(data, one))
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return [*(_told(data, one) for one in found[:_MOST]), *more]


def mistakes_in_schema(schema: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """What keeps it from being a JSON schema, with the place in it."""
    from jsonschema import SchemaError  # noqa: PLC0415 - as below

    try:
        _kind_of(schema).check_schema(schema)
    except SchemaError as error:
        plain = next((one for one in error.context or () if one.validator == "enum"), error)
        yield tuple(error.absolute_path), _short(plain.message)
        return
    yield from _loose_ends(schema)


def _loose_ends(schema: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """References that lead nowhere, or out of the schema: nothing is fetched for one."""
    from referencing import Registry  # noqa: PLC0415 - as below
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    resolver = Registry[Any]().with_resource("", DRAFT202012.create_resource(schema)).resolver("")
    for path, reference in _references(schema, ()):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield path, f"{reference!r} is nowhere in this schema; define it under `$defs`"


def _references(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "$ref" and isinstance(one, str):
                yield (*path, key), one
            else:
                yield from _references(one, (*path, str(key)))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _references(one, (*path, number))


def _kind_of(schema: dict[str, Any]) -> "type[Validator]":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - as long to import as all of the command line
    from jsonschema.validators import validator_for  # noqa: PLC0415

    return validator_for(schema, default=Draft202012Validator)


def _validator(schema: dict[str, Any]) -> "Validator":
    from referencing import Registry  # noqa: PLC0415 - as above

    return _kind_of(schema)(schema, registry=Registry())


def _told(data: Document, error: "ValidationError") -> str:
    place = spelled(tuple(error.absolute_path))
    return f"line {_line(data, error)}{f', {place}' if place else ''}: {_short(error.message)}"


def _line(data: Document, error: "ValidationError") -> int:
    return data.line(tuple(error.absolute_path))


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…"
