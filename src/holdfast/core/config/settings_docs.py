"""Documentation of the settings: a JSON schema for editors, a list of keys and an example file for people."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.config import durations, toml_lines
from holdfast.core.config.settings import COMMAND, SPAN, Settings
from holdfast.core.config.validation import allowed_values, child_type, unwrap_type
from holdfast.core.conversation.permission import Rule
from holdfast.core.conversation.terminal_ui import TerminalUi

NAME_PLACEHOLDER = "NAME"  # stands for a key that the user chooses

_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", TerminalUi: "a table"}


class KeyDoc(NamedTuple):
    """A setting. `default` and `example` are TOML; `default` is None where nothing is set."""

    name: str
    kind: str
    default: str | None
    example: str
    about: str
    required: bool


class TableDoc(NamedTuple):
    name: str
    about: str
    keys: list[KeyDoc]


def settings_schema() -> dict[str, Any]:
    """The JSON schema of a config file."""
    generated = json.loads(json.dumps(msgspec.json.schema(Settings)), object_hook=_allow_text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of Holdfast", **generated}


def _allow_text(node: dict[str, Any]) -> dict[str, Any]:
    """Allow text for a number or a list whose schema also has a pattern for text."""
    if node.get("type") in ("number", "array") and node.keys() & {"pattern", "minLength"}:
        return {**node, "type": [node["type"], "string"]}
    return node


def table_docs(kind: type[msgspec.Struct] = Settings, name: str = "") -> Iterator[TableDoc]:
    """Every table with its keys, in the order of a config file."""
    hints = get_type_hints(kind, include_extras=True)
    subtables = [(field, found) for field in hints if (found := _table_in(hints[field]))]
    subtable_names = {field for field, _ in subtables}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    keys = [_key(field, hints[field.name]) for field in fields.values() if field.name not in subtable_names]
    yield TableDoc(name, " ".join((kind.__doc__ or "").split()), keys)
    for field, (table, named) in subtables:
        yield from table_docs(table, ".".join(filter(None, (name, field, NAME_PLACEHOLDER if named else ""))))


def markdown_page() -> str:
    """One Markdown table for each table of settings."""
    return "\n".join(line for table in table_docs() for line in _markdown_lines(table))


def example_file() -> str:
    """A config file with every setting, each commented out."""
    return "\n".join(
        (
            "## Settings of Holdfast. docs/configuration.md explains them; `holdfast config` shows the current values.",
            *(line for table in table_docs() for line in _commented_lines(table)),
            "",
        )
    )


def _table_in(annotation: Any) -> tuple[type[msgspec.Struct], bool] | None:
    """The table type of a key, and whether the user names its entries; None for other and for optional types."""
    kind, _, optional = unwrap_type(annotation)
    named = get_origin(kind) is dict
    table = get_args(kind)[1] if named else kind
    return (table, named) if isinstance(table, type) and issubclass(table, msgspec.Struct) and not optional else None


def _key(field: Any, annotation: Any) -> KeyDoc:
    metas = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    examples = [example for meta in metas for example in meta.examples or ()]
    default = None if field.required or field.default is None else to_toml(_default(field), annotation)
    return KeyDoc(
        name=field.name,
        kind=_kind(annotation),
        default=default,
        example=to_toml(examples[0], annotation) if examples else str(default),
        about=" ".join(meta.description for meta in metas if meta.description),
        required=field.required,
    )


def _default(field: Any) -> Any:
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return msgspec.to_builtins(default)


def _kind(annotation: Any) -> str:
    kind, spelling, _ = unwrap_type(annotation)
    if spelling == SPAN["written"]:
        return "a duration"
    if spelling == COMMAND["written"]:
        return "a command"
    if allowed := allowed_values(kind):
        return ", ".join(f"`{value}`" for value in allowed)
    if get_origin(kind) is dict:
        return "a table of text"
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "a list of tables" if item is Rule else f"a list of {_kind(item).removeprefix('a ').removesuffix('s')}s"
    return _KINDS.get(kind, "a table as `runtime`")


def to_toml(value: Any, annotation: Any = Any) -> str:
    """A value of this type as TOML; None is a dash."""
    kind, spelling, _ = unwrap_type(annotation)
    if value is None:
        return "-"
    if spelling == SPAN["written"] and not isinstance(value, str):
        return json.dumps(durations.format_duration(value))
    if isinstance(value, dict):
        pairs = (
            f"{toml_lines.format_toml_path((key,))} = {to_toml(item, child_type(kind, key))}"
            for key, item in value.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(item, child_type(kind, number)) for number, item in enumerate(value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _markdown_lines(table: TableDoc) -> Iterator[str]:
    yield f"### `[{table.name}]`" if table.name else "### Top level"
    yield ""
    yield table.about
    yield ""
    if table.keys:
        yield "| key | type | meaning | default |"
        yield "|---|---|---|---|"
    for key in table.keys:
        default = "*required*" if key.required else f"`{key.default}`" if key.default is not None else ""
        yield f"| `{key.name}` | {key.kind} | {key.about} | {default} |"
    yield ""


def _commented_lines(table: TableDoc) -> Iterator[str]:
    yield ""
    if table.name:
        yield f"## {table.about}"
        yield f"# [{table.name.replace(NAME_PLACEHOLDER, 'example')}]"
    for key in table.keys:
        yield f"## {key.about}"
        yield f"# {key.name} = {key.example}"
