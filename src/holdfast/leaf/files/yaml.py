"""Read YAML that people write, without surprises. A mistake becomes one line that says where it is.

The rules are those of YAML 1.2: `no`, `on`, dates and 12:30 are text, as the author of `say: no` expects. Duplicate
keys, aliases that contain themselves and aliases that expand too far are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import yaml

KeyPath = tuple[str | int, ...]


class YamlDocument(NamedTuple):
    """The value of a file, and the lines of its parts. `root` is None for an empty file."""

    value: Any
    root: yaml.Node | None

    def line(self, path: KeyPath) -> int:
        """The line of the deepest part of the path that the file has."""
        if self.root is None:
            return 1
        node, line = self.root, self.root.start_mark.line
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return int(line) + 1


def read_yaml(text: str, file: str, *, scalars_as_text: bool = False) -> YamlDocument:
    """Parse a document. `file` is for messages only. `scalars_as_text` keeps 1.10 as text: it may be an id, not 1.1."""
    from holdfast.leaf.files.yaml_loader import load  # noqa: PLC0415 - slow to import; most commands read no YAML

    value, root = load(text, file, scalars_as_text=scalars_as_text)
    return YamlDocument(value, root)


def read_yaml_or_json(text: str, file: str) -> YamlDocument:
    """YAML or JSON. JSON is YAML except for its tabs, which can only be white space there."""
    return read_yaml(text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text, file)


def format_yaml_path(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _child(node: Any, part: str | int) -> tuple[int, yaml.Node] | None:
    if node.id == "sequence" and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child.start_mark.line, child
    if node.id == "mapping":
        for key, value in node.value:
            if key.id == "scalar" and key.value == part:
                return key.start_mark.line, value
    return None
