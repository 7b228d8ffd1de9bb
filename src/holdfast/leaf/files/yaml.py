"""YAML that people write, read without surprises; or one line that says where it is wrong.

It is YAML as version 1.2 has it: `no`, `on`, dates and 12:30 are text, as anyone who writes `say: no` means. No key is
there twice, no alias contains itself, and none multiplies beyond measure.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import yaml

from holdfast.leaf.errors import BadInput

Path = tuple[str | int, ...]

_MOST_NODES = 200_000  # with every alias counted as often as it is used
_DEEPEST = 100  # levels; libyaml has no limit of its own, and falls off the stack
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


class Document(NamedTuple):
    """What a file says, and where in it each thing is. One without a root is empty."""

    value: Any
    root: yaml.Node | None

    def line(self, path: Path) -> int:
        """The line of the deepest part of the path that is written in the file."""
        if self.root is None:
            return 1
        node, line = self.root, self.root.start_mark.line
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return int(line) + 1


def read_yaml(text: str, file: str, *, as_written: bool = False) -> Document:
    """`file` is for the messages only. `as_written` leaves numbers and true as text: 1.10 is an id, not 1.1."""
    kind = _AsWritten if as_written else _Loader
    try:
        _must_be_shallow(text, file)
        loader = kind(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return Document(None, None)
            _examine(root, file)
            return Document(loader.construct_document(root), root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInput(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{file}:1: not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:  # a value that its tag does not allow: !!int x
        raise BadInput(f"{file}:1: not YAML: {' '.join(str(error).split())}") from None


def read_data(text: str, file: str) -> Document:
    """YAML, and JSON as well: that is the same, but for tabs, which JSON has only between its words."""
    return read_yaml(text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text, file)


def spelled(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


class _AsWritten(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_INT = r"[-+]?(0|[1-9][0-9]*)"
_FLOAT = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"

for _tag, _pattern, _first, _kinds in (
    (_MERGE, r"<<", "<", (_Loader, _AsWritten)),
    (_NULL, r"~|null|", "~n", (_Loader, _AsWritten)),
    ("tag:yaml.org,2002:bool", r"true|false", "tf", (_Loader,)),
    ("tag:yaml.org,2002:int", _INT, "-+0123456789", (_Loader,)),
    ("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789", (_Loader,)),
):
    for _kind in _kinds:
        _kind.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), [*_first, *([""] if _tag == _NULL else [])])


def _must_be_shallow(text: str, file: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise BadInput(f"{file}:{event.start_mark.line + 1}: nested too deeply; {_DEEPEST} levels at most")


def _examine(root: yaml.Node, file: str) -> None:
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
        raise BadInput(f"{file}:1: larger than {_MOST_NODES} values, with its aliases; make it smaller")


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
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if key.value in seen:
                raise BadInput(f"{file}:{key.start_mark.line + 1}: the key {key.value!r} is there twice")
            seen.add(key.value)


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child.start_mark.line, child
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == part:
                return key.start_mark.line, value
    return None
