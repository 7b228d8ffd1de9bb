"""Which functions of ours do what outlives them, read from their source: bytes brought to a disk, processes started."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import holdfast

_SOURCES = Path(holdfast.__file__).parent
_SYNCING = frozenset({"fsync", "fdatasync", "write_all", "sync_or_forget", "sync_directory"})
_STARTING = frozenset({"grown", "Popen", "create_subprocess_exec", "create_subprocess_shell"})
_WHOLE_NAMES = frozenset(
    {
        "holdfast.store.disk.replace",
        *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")),
        *(f"os.{name}" for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen")),
        *(f"os.exec{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    }
)
_POINTS = frozenset({"holdfast.leaf.crashing.around", "holdfast.leaf.crashing.Point", "holdfast.store.disk.Appending"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Lasting(NamedTuple):
    name: str  # the file below the package, and the function in it
    has_point: bool


def lasting_functions() -> list[Lasting]:
    """What is defined inside of a function is part of it."""
    return [one for path in sorted(_SOURCES.glob("**/*.py")) for one in _in(path)]


def _in(path: Path) -> Iterator[Lasting]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    imported = dict(_imported(module))
    points = {name for node in module.body for name in _points_made(node, imported)}
    for name, function in _functions(module):
        if any(_lasts(call, imported) for call in _calls(function)):
            passed = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} & points
            yield Lasting(f"{path.relative_to(_SOURCES).as_posix()} {name}", bool(passed))


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Function):
            yield f"{within}{inner.name}", inner
        elif isinstance(inner, ast.ClassDef):
            yield from _functions(inner, f"{within}{inner.name}.")


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    """What a name means that came from elsewhere."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.asname, one.name) for one in node.names if one.asname is not None)


def _points_made(node: ast.stmt, imported: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.Assign) and any(_name_of(call, imported) in _POINTS for call in _calls(node.value)):
        for target in node.targets:
            yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))


def _lasts(call: ast.Call, imported: dict[str, str]) -> bool:
    name = _name_of(call, imported)
    return name in _WHOLE_NAMES or name.rpartition(".")[2] in _SYNCING | _STARTING


def _name_of(call: ast.Call, imported: dict[str, str]) -> str:
    first, dot, rest = ast.unparse(call.func).partition(".")
    return f"{imported.get(first, first)}{dot}{rest}"
