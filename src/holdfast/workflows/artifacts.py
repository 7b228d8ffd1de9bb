"""Check the document that a phase's agent hands in: headings of prose, or the JSON schema of data.

The agent gets every mistake at once, by line and path, so that it can correct the document in one attempt.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.work.workflow import PhaseSpec
from holdfast.leaf.errors import BadInput
from holdfast.leaf.files.yaml import KeyPath, YamlDocument, format_yaml_path, read_yaml_or_json

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MAX_MISTAKES = 10  # shown at once
_MAX_MISTAKE_CHARS = 300
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)


def document_mistakes(text: str, spec: PhaseSpec) -> list[str]:
    """The mistakes in a document, one line each; empty when it has what the phase asks for."""
    if spec.schema is None:
        headings = {heading.strip().lower() for heading in _HEADING.findall(text)}
        return [
            f"the heading {required!r} is missing" for required in spec.sections if required.lower() not in headings
        ]
    try:
        data = read_yaml_or_json(text, "line")
    except BadInput as error:
        return [str(error).replace("line:", "line ", 1)]
    errors = sorted(_validator(spec.schema).iter_errors(data.value), key=lambda error: _line_number(data, error))
    more = [f"and {len(errors) - _MAX_MISTAKES} more"] if len(errors) > _MAX_MISTAKES else []
    return [*(_error_line(data, error) for error in errors[:_MAX_MISTAKES]), *more]


def schema_mistakes(schema: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """The mistakes in a JSON schema, each with its path."""
    from jsonschema import SchemaError  # noqa: PLC0415 - as below

    try:
        _validator_class(schema).check_schema(schema)
    except SchemaError as error:
        clearest = next((cause for cause in error.context or () if cause.validator == "enum"), error)
        yield tuple(error.absolute_path), _shorten(clearest.message)
        return
    yield from _broken_references(schema)


def _broken_references(schema: dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """References that the schema itself does not define. Nothing is fetched."""
    from referencing import Registry  # noqa: PLC0415 - as below
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    resolver = Registry[Any]().with_resource("", DRAFT202012.create_resource(schema)).resolver("")
    for path, reference in _references(schema, ()):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield path, f"this schema does not define {reference!r}; define it under `$defs`"


def _references(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref" and isinstance(child, str):
                yield (*path, key), child
            else:
                yield from _references(child, (*path, str(key)))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _references(child, (*path, number))


def _validator_class(schema: dict[str, Any]) -> "type[Validator]":
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes as long to import as the whole command line
    from jsonschema.validators import validator_for  # noqa: PLC0415

    return validator_for(schema, default=Draft202012Validator)


def _validator(schema: dict[str, Any]) -> "Validator":
    from referencing import Registry  # noqa: PLC0415 - as above

    return _validator_class(schema)(schema, registry=Registry())


def _error_line(data: YamlDocument, error: "ValidationError") -> str:
    place = format_yaml_path(tuple(error.absolute_path))
    return f"line {_line_number(data, error)}{f', {place}' if place else ''}: {_shorten(error.message)}"


def _line_number(data: YamlDocument, error: "ValidationError") -> int:
    return data.line(tuple(error.absolute_path))


def _shorten(message: str) -> str:
    return message if len(message) <= _MAX_MISTAKE_CHARS else f"{message[:_MAX_MISTAKE_CHARS]}…"
