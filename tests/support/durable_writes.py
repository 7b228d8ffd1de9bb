"""Which functions of ours do what outlives them, read from their source: files changed, processes started.

Whoever opens a file to write in it is seen; whoever is handed one that is open, by the bare calls of the system.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import holdfast

_SOURCES = Path(holdfast.__file__).parent

# By the last word alone, whatever it is of.
_SYNCING = frozenset({"fsync", "fdatasync", "write_all", "sync_or_drop", "sync_directory"})
_STARTING = frozenset({"spawn", "Popen", "create_subprocess_exec", "create_subprocess_shell"})
_OF_PATHS = frozenset(
    {
        "hardlink_to",
        "mkdir",
        "rename",
        "rmdir",
        "symlink_to",
        "touch",
        "truncate",
        "unlink",
        "write_bytes",
        "write_text",
    }
)
_LAST_WORDS = _SYNCING | _STARTING | _OF_PATHS

_CHANGING = (
    *("chmod", "chown", "copy_file_range", "fchmod", "fchown", "ftruncate", "lchown", "link", "makedirs", "mkdir"),
    *("mkfifo", "mknod", "posix_fallocate", "pwrite", "pwritev", "remove", "removedirs", "removexattr", "rename"),
    *(
        "renames",
        "replace",
        "rmdir",
        "sendfile",
        "setxattr",
        "symlink",
        "truncate",
        "unlink",
        "utime",
        "write",
        "writev",
    ),
)
_COPYING = (
    *("chown", "copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat", "copytree", "make_archive", "move"),
    *("rmtree", "unpack_archive"),
)
_TEMPORARY = ("NamedTemporaryFile", "TemporaryDirectory", "mkdtemp", "mkstemp")
_OURS = {  # each is the call itself: whoever calls it is seen in its place
    "holdfast.leaf.files.directories.remove_tree",
    "holdfast.leaf.files.directories.sync_directory",
    "holdfast.leaf.files.disk.replace",
}
_WHOLE_NAMES = frozenset(
    {
        *_OURS,
        *(f"os.{name}" for name in _CHANGING),
        *(f"shutil.{name}" for name in _COPYING),
        *(f"tempfile.{name}" for name in _TEMPORARY),
        *("sqlite3.connect", "_sqlite3.connect"),
        *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")),
        *(f"os.{name}" for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen")),
        *(f"os.exec{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    }
)
_MAKING = ("O_CREAT", "O_TRUNC", "O_TMPFILE")  # what is written then is seen where it is
_AROUND = "holdfast.leaf.failpoints.failpoint_pair"
_POINTS = frozenset({_AROUND, "holdfast.leaf.failpoints.Failpoint", "holdfast.leaf.files.disk.AppendFailpoints"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Lasting(NamedTuple):
    name: str  # the file below the package, and the function in it
    has_point: bool


class HalfWay(NamedTuple):
    """Of two points around something, a function passes one."""

    name: str
    around: str


class Source(NamedTuple):
    """A module of ours: what its names mean, and the points that it makes."""

    path: str  # below the package
    functions: dict[str, Function]
    imported: dict[str, str]
    constants: dict[str, ast.expr]
    points: dict[str, str]  # what each was made by


def lasting_functions() -> list[Lasting]:
    """What is defined inside of a function is part of it."""
    return [one for source in _sources() for one in lasting_in(source)]


def half_passed() -> list[HalfWay]:
    return [one for source in _sources() for one in half_passed_in(source)]


def read_source(path: str, text: str) -> Source:
    module = ast.parse(text)
    imported = dict(_imported(module))
    assigned = [pair for node in module.body for pair in _assigned(node)]
    points = {name: kind for name, value in assigned if (kind := _point_made(value, imported)) is not None}
    return Source(path, dict(_functions(module)), imported, dict(assigned), points)


def lasting_in(source: Source) -> Iterator[Lasting]:
    for name, function in source.functions.items():
        if any(_lasts(node, source) for node in ast.walk(function)):
            passed = any(_is_passed(point, kind, function) for point, kind in source.points.items())
            yield Lasting(f"{source.path} {name}", passed)


def half_passed_in(source: Source) -> Iterator[HalfWay]:
    """Also of functions that do nothing that is seen here."""
    for name, function in source.functions.items():
        for point, kind in source.points.items():
            if kind == _AROUND and len(_sides(point, function)) == 1:
                yield HalfWay(f"{source.path} {name}", point)


def _sources() -> Iterator[Source]:
    for path in sorted(_SOURCES.glob("**/*.py")):
        yield read_source(path.relative_to(_SOURCES).as_posix(), path.read_text(encoding="utf-8"))


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, Function):
            yield f"{within}{inner.name}", inner
        else:
            yield from _functions(inner, f"{within}{inner.name}." if isinstance(inner, ast.ClassDef) else within)


def _imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    """What a name means that came from elsewhere."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.asname, one.name) for one in node.names if one.asname is not None)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module gives to values, one by one."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=True)
                yield from ((one.id, value) for one, value in pairs if isinstance(one, ast.Name))
            else:  # several from one value, too
                yield from ((one.id, node.value) for one in ast.walk(target) if isinstance(one, ast.Name))


# --- points --------------------------------------------------------------------------------------------


def _point_made(value: ast.expr, imported: dict[str, str]) -> str | None:
    made = (_name_of(one.func, imported) for one in ast.walk(value) if isinstance(one, ast.Call))
    return next((name for name in made if name in _POINTS), None)


def _is_passed(point: str, kind: str, function: Function) -> bool:
    if kind == _AROUND:
        return len(_sides(point, function)) == 2
    return any(isinstance(node, ast.Name) and node.id == point for node in ast.walk(function))


def _sides(point: str, function: Function) -> set[str]:
    """Which of two points are called: of the name itself, or of one in a table of that name."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value.value if isinstance(node.func.value, ast.Subscript) else node.func.value
            if isinstance(of, ast.Name) and of.id == point:
                found.add(node.func.attr)
    return found & {"before", "after"}


# --- what lasts ----------------------------------------------------------------------------------------


def _lasts(node: ast.AST, source: Source) -> bool:
    """A call; or the name of one, handed on to whoever calls it."""
    if isinstance(node, ast.Name | ast.Attribute) and _name_of(node, source.imported) in _WHOLE_NAMES:
        return True
    if not isinstance(node, ast.Call):
        return False
    name = _name_of(node.func, source.imported)
    last = name.rpartition(".")[2]
    return last in _LAST_WORDS or _opens_to_write(name, node, source) or _replaces(name, node)


def _opens_to_write(name: str, call: ast.Call, source: Source) -> bool:
    """Also when what it opens for is known only when it does."""
    if name == "os.open":
        return _may_write(call.args[1], source)
    if name in {"open", "io.open", "os.fdopen", "codecs.open"}:
        return _is_to_write(call.args[1] if len(call.args) > 1 else _mode_in(call))
    if name.endswith(".open"):  # of a path, when its first word can be a mode
        mode = call.args[0] if call.args else _mode_in(call)
        return isinstance(mode, ast.Constant) and _is_to_write(mode)
    return False


def _mode_in(call: ast.Call) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == "mode"), None)


def _is_to_write(mode: ast.expr | None) -> bool:
    if mode is None:
        return False
    return not isinstance(mode, ast.Constant) or bool(set("wax+") & set(str(mode.value)))


def _may_write(flags: ast.expr, source: Source) -> bool:
    for node in ast.walk(flags):
        if isinstance(node, ast.Attribute) and node.attr in _MAKING:
            return True
        if isinstance(node, ast.Name) and node.id != "os":
            known = source.constants.get(node.id)
            if known is None or _may_write(known, source):
                return True
    return False


def _replaces(name: str, call: ast.Call) -> bool:
    """A path by another: of strings two are given, of structs what is new."""
    return name.endswith(".replace") and len(call.args) == 1 and not call.keywords


def _name_of(node: ast.expr, imported: dict[str, str]) -> str:
    first, dot, rest = ast.unparse(node).partition(".")
    return f"{imported.get(first, first)}{dot}{rest}"
