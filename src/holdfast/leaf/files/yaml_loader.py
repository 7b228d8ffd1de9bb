"""The YAML parser behind `read_yaml`, in a module of its own because the library is slow to import."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from holdfast.leaf.errors import BadInput

_MAX_NODES = 200_000  # every use of an alias counts
_MAX_DEPTH = 100  # levels; libyaml has no limit and overflows the stack
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


def load(text: str, file: str, *, scalars_as_text: bool) -> tuple[Any, yaml.Node | None]:
    """Return the value and its root node; None for both if the document is empty."""
    kind = _TextLoader if scalars_as_text else _Loader
    try:
        _check_depth(text, file)
        loader = kind(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None, None
            _check_nodes(root, file)
            return loader.construct_document(root), root
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInput(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{file}:1: not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:  # a value that its tag does not allow: !!int x
        raise BadInput(f"{file}:1: not YAML: {' '.join(str(error).split())}") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


class _TextLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_INT = r"[-+]?(0|[1-9][0-9]*)"
_FLOAT = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"

for _tag, _pattern, _first, _kinds in (
    (_MERGE, r"<<", "<", (_Loader, _TextLoader)),
    (_NULL, r"~|null|", "~n", (_Loader, _TextLoader)),
    ("tag:yaml.org,2002:bool", r"true|false", "tf", (_Loader,)),
    ("tag:yaml.org,2002:int", _INT, "-+0123456789", (_Loader,)),
    ("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789", (_Loader,)),
):
    for _kind in _kinds:
        _kind.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), [*_first, *([""] if _tag == _NULL else [])])


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise BadInput(f"{file}:{event.start_mark.line + 1}: nested too deeply; at most {_MAX_DEPTH} levels")


def _check_nodes(root: yaml.Node, file: str) -> None:
    sizes: dict[int, int] = {}

    def size(node: yaml.Node, above: frozenset[int]) -> int:
        if id(node) in above:
            raise BadInput(f"{file}:{node.start_mark.line + 1}: an alias that contains itself")
        if id(node) not in sizes:
            if isinstance(node, yaml.MappingNode):
                _check_duplicate_keys(node, file)
            sizes[id(node)] = 1 + sum(size(child, above | {id(node)}) for child in _children(node))
        return sizes[id(node)]

    if size(root, frozenset()) > _MAX_NODES:
        raise BadInput(f"{file}:1: more than {_MAX_NODES} values, counting every use of an alias; make it smaller")


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _check_duplicate_keys(node: yaml.MappingNode, file: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
            if key.value in seen:
                raise BadInput(f"{file}:{key.start_mark.line + 1}: duplicate key {key.value!r}")
            seen.add(key.value)
