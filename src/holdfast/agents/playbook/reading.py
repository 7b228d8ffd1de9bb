"""From a file to a playbook; or one line that says where it is wrong, what is wrong, and what is allowed."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn

import msgspec
import yaml
from msgspec import inspect

from holdfast.agents.playbook.format import Choice, Choices, ConfigOption, OneOf, Playbook, Step, Turn
from holdfast.agents.playbook.variables import names_in, wrong_name
from holdfast.leaf.errors import BadInput

_Path = tuple[str | int, ...]

_MOST_NODES = 200_000  # with every alias counted as often as it is used
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_PATH = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$")
_MISSING = re.compile(r"^Object missing required field `(.*)`$")
_TYPE = re.compile(r"`([a-z |]+)`")
_WORDS = {
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
    """`file` is for the messages only."""
    document, root = _document(text, file)
    if root is None:
        raise BadInput(f"{file}:1: empty; a playbook has {_listed(Playbook.__struct_fields__)}")
    try:
        playbook = msgspec.convert(document, Playbook)
    except msgspec.ValidationError as error:
        _reject(file, root, *_explained(str(error)))
    for path, what in _mistakes(playbook, ()):
        _reject(file, root, path, what)
    for path, what in _out_of_place(playbook):
        _reject(file, root, path, what)
    return playbook


def _reject(file: str, root: yaml.Node, path: _Path, what: str) -> NoReturn:
    place = _spelled(path)
    raise BadInput(f"{file}:{_line(root, path)}: {f'{place}: ' if place else ''}{what}")


# --- YAML --------------------------------------------------------------------------------------------


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as version 1.2 has it: `no`, `on`, dates and 12:30 are text, as anyone who writes `say: no` means."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for _tag, _pattern, _first in (
    ("merge", r"<<", "<"),
    ("null", r"~|null|", "~n"),
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [*_first, *([""] if _tag == "null" else [])]
    )


def _document(text: str, file: str) -> tuple[Any, yaml.Node | None]:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, None
        _examine(root, file)
        return loader.construct_document(root), root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInput(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{file}:1: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise BadInput(f"{file}:1: nested too deeply; a playbook needs a dozen levels at most") from None
    finally:
        loader.dispose()


def _examine(root: yaml.Node, file: str) -> None:
    """No key twice (YAML would let the last one win), no loops, and no aliases that multiply beyond measure."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise BadInput(f"{file}:{node.start_mark.line + 1}: an alias that contains itself")
        if id(node) not in sizes:
            if isinstance(node, yaml.MappingNode):
                _no_key_twice(node, file)
            sizes[id(node)] = 1 + sum(size(child, above | {id(node)}) for child in _children(node))
        return sizes[id(node)]

    if size(root, frozenset()) > _MOST_NODES:
        raise BadInput(f"{file}:1: larger than {_MOST_NODES} values, with its aliases; use repeat")


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _no_key_twice(node: yaml.MappingNode, file: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise BadInput(f"{file}:{key.start_mark.line + 1}: the key {key.value!r} is there twice")
            seen.add(key.value)


def _line(root: yaml.Node, path: _Path) -> int:
    """The line of the deepest part of the path that is written in the file."""
    node, line = root, root.start_mark.line
    for part in path:
        found = _child(node, part)
        if found is None:
            break
        line, node = found
    return int(line) + 1


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child.start_mark.line, child
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == part:
                return key.start_mark.line, value
    return None


# --- what msgspec says, in the words of the format ----------------------------------------------------


def _explained(message: str) -> tuple[_Path, str]:
    match = _WHERE.match(message)
    assert match is not None
    path: _Path = tuple(name or int(index) for name, index in _PATH.findall(match["path"] or ""))
    what = match["what"]
    kinds = list(_kinds_at(inspect.type_info(Playbook), path))
    if match["key"]:
        return path, "a key here must be text"
    if unknown := _UNKNOWN.match(what):
        keys = [field.encode_name for kind in kinds if isinstance(kind, inspect.StructType) for field in kind.fields]
        return (*path, unknown[1]), f"there is no such key; allowed here: {_listed(sorted(keys))}"
    if missing := _MISSING.match(what):
        return path, f"the key {missing[1]!r} is missing"
    allowed = sorted(str(value) for kind in kinds if isinstance(kind, inspect.LiteralType) for value in kind.values)
    if what.startswith("Invalid enum value"):
        value = what.removeprefix("Invalid enum value ")
        more = " (or a mapping)" if any(isinstance(kind, inspect.StructType) for kind in kinds) else ""
        return path, f"{value} is not allowed; allowed: {_listed(allowed)}{more}"
    what = _TYPE.sub(lambda match: " or ".join(_WORDS.get(word, word) for word in match[1].split(" | ")), what)
    if allowed:
        what += f" (allowed: {_listed(allowed)})"
    return path, what[0].lower() + what[1:]


def _kinds_at(kind: inspect.Type, path: _Path) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _kinds_at(one, path)
    elif not path:
        yield kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == path[0]:
                yield from _kinds_at(field.type, path[1:])
    elif isinstance(kind, inspect.ListType):
        yield from _kinds_at(kind.item_type, path[1:])


# --- what the types cannot say ------------------------------------------------------------------------


def _mistakes(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    if isinstance(value, str):
        for name in names_in(value):
            if said := wrong_name(name):
                yield path, said
    elif isinstance(value, msgspec.Struct):
        yield from _mistakes_of(value, path)
        for field in value.__struct_fields__:
            yield from _mistakes(getattr(value, field), (*path, field))
    elif isinstance(value, (list, dict)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _mistakes(one, (*path, key))


def _mistakes_of(value: msgspec.Struct, path: _Path) -> Iterator[tuple[_Path, str]]:
    if isinstance(value, OneOf) and len(value.keys()) != 1:
        keys = value.keys()
        kind = "step" if isinstance(value, Step) else "piece of content"
        found = f"this one has {_listed(keys)}" if keys else f"allowed: {_listed(sorted(value.__struct_fields__))}"
        yield path, f"a {kind} is a mapping with one key; {found}"
    if isinstance(value, Turn) and value.when is not None:
        try:
            re.compile(value.when)
        except re.error as error:
            yield (*path, "when"), f"not a regular expression: {error}"
    if isinstance(value, Choices):
        yield from _not_among(value.current, value.available, path)
    if isinstance(value, ConfigOption):
        if value.available is not None:
            yield from _not_among(value.current, value.available, path)
        elif isinstance(value.current, str):
            yield (*path, "current"), "without `available` the option is a switch: true or false"


def _not_among(current: str | bool, available: list[Choice | str], path: _Path) -> Iterator[tuple[_Path, str]]:  # noqa: FBT001
    ids = [one if isinstance(one, str) else one.id for one in available]
    if current not in ids:
        yield (*path, "current"), f"{current!r} is not among the available; allowed: {_listed(ids)}"


def _out_of_place(playbook: Playbook) -> Iterator[tuple[_Path, str]]:
    for index, step in enumerate(playbook.start):
        if step.key not in Step.AT_START:
            allowed = _listed(sorted(Step.AT_START))
            yield ("start", index, step.key), f"not possible before there is a session; allowed: {allowed}"


def _listed(names: Any) -> str:
    return ", ".join(names) or "nothing"


def _spelled(path: _Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
