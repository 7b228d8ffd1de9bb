"""The settings that hold, and where each came from: built-in, then the user's file, the project's file, and flags.

Tables are merged key by key; whatever else a later layer says replaces what an earlier one said.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.registry import BUILT_IN
from holdfast.core.config.roles import mistake_in_role
from holdfast.core.config.settings import Settings
from holdfast.core.config.settings_docs import written
from holdfast.core.config.toml_lines import Path, path_of, spelled
from holdfast.core.config.trust import split
from holdfast.core.config.validation import Misshapen, shaped, type_at
from holdfast.engine.config import files as config_files
from holdfast.engine.config.files import Document
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.text.mistakes import BadFile, Mistake
from holdfast.store.files.layout import default_home

_MOST_NAMED = 5  # in one line


class Origin(NamedTuple):
    """Where a value came from. Built-in ones and flags have no file."""

    layer: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.layer if self.file is None else f"{self.file}:{self.line}"


class Value(NamedTuple):
    """A setting as data, and as TOML writes it."""

    data: Any
    written: str


class Ignored(NamedTuple):
    """What a project file says and what does not hold, because nobody trusted that file."""

    key: str
    value: Value
    origin: Origin


class Files(NamedTuple):
    """Where settings are looked for. `project` is None outside of a repository."""

    user: str
    project: str | None
    trusted: bool


@dataclass(frozen=True, slots=True)
class Config:
    """`origins` and `values` have an entry for each setting, by its dotted name."""

    settings: Settings
    origins: Mapping[str, Origin]
    values: Mapping[str, Value]
    ignored: tuple[Ignored, ...]
    files: Files

    @property
    def warnings(self) -> list[str]:
        """One line for what a user should know before anything starts."""
        if not self.ignored:
            return []
        first, rest = [one.key for one in self.ignored[:_MOST_NAMED]], len(self.ignored[_MOST_NAMED:])
        keys = ", ".join(first) + (f" and {rest} more" if rest else "")
        return [
            f"{self.files.project}: ignored until you trust this file: {keys}; read it, then: holdfast config trust"
        ]


class _Layer(NamedTuple):
    name: str
    table: dict[str, Any]
    file: str | None = None
    lines: Mapping[Path, int] = {}

    def has(self, path: Path) -> bool:
        part: Any = self.table
        for key in path:
            try:
                part = part[key]
            except (LookupError, TypeError):
                return False
        return True

    def origin(self, path: Path) -> Origin:
        """The line of the deepest part of the path that is written down."""
        if self.file is None:
            return Origin(self.name)
        parts = (path[:length] for length in range(len(path), 0, -1))
        return Origin(self.name, self.file, next((self.lines[part] for part in parts if part in self.lines), 1))


def load(folder: str | None = None, *, home: str | None = None, flags: Mapping[str, Any] | None = None) -> Config:
    """For the repository that a folder belongs to; without one, no project has a say. Flags are dotted names."""
    user, project = config_files.user_file(), None if folder is None else config_files.project_file(folder)
    layers = [_of_file("user", _named(user))]
    document = None if project is None else config_files.read(project)
    trusted = document is not None and config_files.is_trusted(home or default_home(), document)
    ignored: tuple[Ignored, ...] = ()
    if document is not None:
        layer = _of_file("project", document)
        if not trusted:
            free, guarded = split(layer.table, _settled(layers))
            ignored = tuple(
                Ignored(spelled(path), _value(path, found), layer.origin(path)) for path, found in _all_leaves(guarded)
            )
            layer = layer._replace(table=free)
        layers.append(layer)
    layers.append(_of_flags(flags or {}))
    settings = _settled(layers)
    leaves = dict(_leaves(msgspec.to_builtins(settings)))
    return Config(
        settings=settings,
        origins={spelled(path): _origin(layers, path) for path in leaves},
        values={spelled(path): _value(path, found) for path, found in leaves.items()},
        ignored=ignored,
        files=Files(user, project, trusted),
    )


def files_for(folder: str, home: str | None = None) -> Files:
    """Where settings of a folder are looked for; the files need not be good."""
    project = config_files.project_file(folder)
    trusted = project is not None and config_files.is_trusted_now(home or default_home(), project)
    return Files(config_files.user_file(), project, trusted)


def load_here(home: str | None = None) -> Config:
    """For the folder that we are in, if it is still there."""
    try:
        return load(os.getcwd(), home=home)
    except FileNotFoundError:
        return load(home=home)


def trust(folder: str, home: str | None = None) -> tuple[str, dict[str, Value]]:
    """Let all of a project file hold, as it is now. Returns which file, and what had been waiting for this."""
    file = config_files.project_file(folder)
    document = None if file is None else config_files.read(file)
    if document is None:
        raise NothingToDo(f"nothing to trust: there is no {file or f'repository at {folder}'}")
    user, project = _of_file("user", _named(config_files.user_file())), _of_file("project", document)
    guarded = split(project.table, _settled([user])).guarded
    _settled([user, project])  # what is wrong cannot be trusted
    config_files.trust(home or default_home(), document)
    return document.file, {spelled(path): _value(path, found) for path, found in _all_leaves(guarded)}


def _named(file: str) -> Document | None:
    """The user's file. One that was asked for by name must be there."""
    document = config_files.read(file)
    if document is None and os.environ.get("HOLDFAST_CONFIG"):
        raise BadInput(f"HOLDFAST_CONFIG: there is no file {file}; `holdfast config init` writes one")
    return document


def _of_file(name: str, document: Document | None) -> _Layer:
    if document is None:
        return _Layer(name, {})
    layer = _Layer(name, document.table, document.file, document.lines)
    wrong: list[Misshapen] = []
    table = shaped(document.table, Settings, whole=False, report=wrong.append)
    wrong += [Misshapen(("roles", role), what) for role, what in mistakes_in_roles(table.get("roles", {}))]
    if wrong:
        raise BadFile([_mistake(layer.origin(error.path), error) for error in wrong])
    return layer._replace(table=table)


def roles_in(name: str, value: Any) -> list[str]:
    """The roles that a flag of this dotted name is about."""
    try:
        table, *role = path_of(name)
    except ValueError:
        return []  # which is told when it is used
    if table != "roles":
        return []
    return [str(role[0])] if role else [*value] if isinstance(value, dict) else []


def mistakes_in_roles(roles: Iterable[str]) -> list[tuple[str, str]]:
    """The names that are no roles, and what was probably meant."""
    return [(role, what) for role in roles if (what := mistake_in_role(role)) is not None]


def _of_flags(flags: Mapping[str, Any]) -> _Layer:
    table: dict[str, Any] = {}
    for name, value in flags.items():
        try:
            *above, last = path_of(name)
            inner: dict[str, Any] = {last: value}
            for part in reversed(above):
                inner = {part: inner}
            table = _merged(table, shaped(inner, Settings, whole=False))
        except Misshapen as error:
            raise BadInput(str(_mistake(Origin("flag"), error))) from None
        except ValueError as error:
            raise BadInput(str(error)) from None
    return _Layer("flag", table)


def _settled(layers: list[_Layer]) -> Settings:
    table: dict[str, Any] = {}
    for layer in layers:
        table = _merged(table, layer.table)
    try:
        settings = msgspec.convert(shaped(table, Settings, whole=True), Settings)
        _know_their_commands(settings)
    except Misshapen as error:
        raise BadInput(str(_mistake(_origin(layers, error.path), error))) from None
    return settings


def _know_their_commands(settings: Settings) -> None:
    for name, entry in settings.agents.items():
        if entry.command is None and name not in BUILT_IN:
            raise Misshapen(("agents", name), "the key 'command' is missing; we know no agent by this name")


def _mistake(origin: Origin, error: Misshapen) -> Mistake:
    return Mistake(origin.file or origin.layer, origin.line, spelled(error.path) if error.path else "", error.what)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {**below}
    for key, value in above.items():
        held = both.get(key)
        both[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return both


def _origin(layers: list[_Layer], path: Path) -> Origin:
    """Of the last layer that says something there."""
    return next((layer.origin(path) for layer in reversed(layers) if layer.has(path)), Origin("built-in"))


def _value(path: Path, data: Any) -> Value:
    return Value(data, written(data, type_at(Settings, path)))


def _all_leaves(parts: Mapping[Path, Any]) -> Iterator[tuple[Path, Any]]:
    for path, value in parts.items():
        yield from _leaves(value, path)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    else:
        yield path, value
