"""The settings told to others: to editors as a JSON schema, to people as a list of keys and as an example."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from holdfast.core.config import durations
from holdfast.core.config import toml_lines as positions
from holdfast.core.config.settings import COMMAND, SPAN, Settings
from holdfast.core.config.validation import below, choices, shape_of
from holdfast.core.conversation.permission import Rule
from holdfast.core.conversation.terminal_ui import Tui

NAME = "NAME"  # stands for a key that the user chooses

_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", Tui: "a table"}


class Key(NamedTuple):
    """A setting. `default` and `example` are TOML; `default` is None where nothing is set."""

    name: str
    kind: str
    default: str | None
    example: str
    about: str
    needed: bool


class Table(NamedTuple):
    name: str
    about: str
    keys: list[Key]


def schema() -> dict[str, Any]:
    """The JSON schema of a config file."""
    made = json.loads(json.dumps(msgspec.json.schema(Settings)), object_hook=_also_text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of Holdfast", **made}


def _also_text(node: dict[str, Any]) -> dict[str, Any]:
    """A number or a list for which the schema also says how a text has to be, may be a text."""
    if node.get("type") in ("number", "array") and node.keys() & {"pattern", "minLength"}:
        return {**node, "type": [node["type"], "string"]}
    return node


def tables(kind: type[msgspec.Struct] = Settings, name: str = "") -> Iterator[Table]:
    """Every table with its keys, in the order in which a file would have them."""
    hints = get_type_hints(kind, include_extras=True)
    within = [(field, found) for field in hints if (found := _table_in(hints[field]))]
    inner = {field for field, _ in within}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    keys = [_key(field, hints[field.name]) for field in fields.values() if field.name not in inner]
    yield Table(name, " ".join((kind.__doc__ or "").split()), keys)
    for field, (held, named) in within:
        yield from tables(held, ".".join(filter(None, (name, field, NAME if named else ""))))


def page() -> str:
    """A table in Markdown for each of them."""
    return "\n".join(line for table in tables() for line in _markdown(table))


def example() -> str:
    """A file in which everything stands and nothing holds: each setting is behind a `#`."""
    return "\n".join(
        (
            "## Settings of Holdfast. docs/configuration.md explains them; `holdfast config` shows what holds.",
            *(line for table in tables() for line in _commented(table)),
            "",
        )
    )


def _table_in(annotation: Any) -> tuple[type[msgspec.Struct], bool] | None:
    """The table that a key holds, and whether its keys are names that the user chooses. Not one that may be absent."""
    kind, _, optional = shape_of(annotation)
    named = get_origin(kind) is dict
    held = get_args(kind)[1] if named else kind
    return (held, named) if isinstance(held, type) and issubclass(held, msgspec.Struct) and not optional else None


def _key(field: Any, annotation: Any) -> Key:
    metas = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    examples = [one for meta in metas for one in meta.examples or ()]
    default = None if field.required or field.default is None else written(_default(field), annotation)
    return Key(
        name=field.name,
        kind=_kind(annotation),
        default=default,
        example=written(examples[0], annotation) if examples else str(default),
        about=" ".join(meta.description for meta in metas if meta.description),
        needed=field.required,
    )


def _default(field: Any) -> Any:
    made = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return msgspec.to_builtins(made)


def _kind(annotation: Any) -> str:
    kind, spelling, _ = shape_of(annotation)
    if spelling == SPAN["written"]:
        return "a span of time"
    if spelling == COMMAND["written"]:
        return "a command"
    if few := choices(kind):
        return ", ".join(f"`{one}`" for one in few)
    if get_origin(kind) is dict:
        return "a table of text"
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return "a list of tables" if item is Rule else f"a list of {_kind(item).removeprefix('a ').removesuffix('s')}s"
    return _KINDS.get(kind, "a table as `runtime`")


def written(value: Any, annotation: Any = Any) -> str:
    """A value of this type as TOML writes it, if it can; nothing is a dash."""
    kind, spelling, _ = shape_of(annotation)
    if value is None:
        return "-"
    if spelling == SPAN["written"] and not isinstance(value, str):
        return json.dumps(durations.spelled(value))
    if isinstance(value, dict):
        pairs = (f"{positions.spelled((key,))} = {written(one, below(kind, key))}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(one, below(kind, number)) for number, one in enumerate(value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _markdown(table: Table) -> Iterator[str]:
    yield f"### `[{table.name}]`" if table.name else "### Above all tables"
    yield ""
    yield table.about
    yield ""
    if table.keys:
        yield "| key | what | | without it |"
        yield "|---|---|---|---|"
    for key in table.keys:
        default = "*needed*" if key.needed else f"`{key.default}`" if key.default is not None else ""
        yield f"| `{key.name}` | {key.kind} | {key.about} | {default} |"
    yield ""


def _commented(table: Table) -> Iterator[str]:
    yield ""
    if table.name:
        yield f"## {table.about}"
        yield f"# [{table.name.replace(NAME, 'example')}]"
    for key in table.keys:
        yield f"## {key.about}"
        yield f"# {key.name} = {key.example}"
