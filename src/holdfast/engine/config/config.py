"""The effective settings and the origin of each: built-in, then the user's file, the project's file, and flags.

Tables are merged key by key; any other value of a later layer replaces the earlier one.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.registry import BUILT_IN
from holdfast.core.config.roles import mistake_in_role
from holdfast.core.config.settings import Settings
from holdfast.core.config.settings_docs import to_toml
from holdfast.core.config.toml_lines import KeyPath, format_toml_path, parse_key
from holdfast.core.config.trust import split_by_trust
from holdfast.core.config.validation import InvalidValue, type_at, validate_value
from holdfast.engine.config import files as config_files
from holdfast.engine.config.files import ConfigDocument
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.text.mistakes import BadFile, Mistake

_MAX_KEYS_SHOWN = 5  # keys in one line


class Origin(NamedTuple):
    """Where a value came from. Built-in values and flags have no file."""

    layer: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return self.layer if self.file is None else f"{self.file}:{self.line}"


class SettingValue(NamedTuple):
    """A setting as data and as TOML."""

    data: Any
    toml: str


class IgnoredSetting(NamedTuple):
    """A setting of a project file that is ignored because the file is not trusted."""

    key: str
    value: SettingValue
    origin: Origin


class ConfigFiles(NamedTuple):
    """Where settings are read from. `project` is None outside a repository."""

    user: str
    project: str | None
    trusted: bool


class _Layer(NamedTuple):
    name: str
    table: dict[str, Any]
    file: str | None = None
    lines: Mapping[KeyPath, int] = {}

    def has(self, path: KeyPath) -> bool:
        part: Any = self.table
        for key in path:
            try:
                part = part[key]
            except (LookupError, TypeError):
                return False
        return True

    def origin(self, path: KeyPath) -> Origin:
        """Return the origin of the deepest part of the path that a file sets."""
        if self.file is None:
            return Origin(self.name)
        parts = (path[:length] for length in range(len(path), 0, -1))
        return Origin(self.name, self.file, next((self.lines[part] for part in parts if part in self.lines), 1))


@dataclass(frozen=True)
class Config:
    """`origins` and `values` have an entry for each setting, by its dotted name. They are made when they are read."""

    settings: Settings
    layers: tuple[_Layer, ...]
    ignored: tuple[IgnoredSetting, ...]
    files: ConfigFiles

    @cached_property
    def origins(self) -> Mapping[str, Origin]:
        return {format_toml_path(path): _origin(self.layers, path) for path in self._leaves}

    @cached_property
    def values(self) -> Mapping[str, SettingValue]:
        return {format_toml_path(path): _setting_value(path, found) for path, found in self._leaves.items()}

    @cached_property
    def _leaves(self) -> Mapping[KeyPath, Any]:
        return dict(_leaves(msgspec.to_builtins(self.settings)))

    @property
    def warnings(self) -> list[str]:
        """Return one line for each thing a user should know before a run starts."""
        if not self.ignored:
            return []
        first, rest = [setting.key for setting in self.ignored[:_MAX_KEYS_SHOWN]], len(self.ignored[_MAX_KEYS_SHOWN:])
        keys = ", ".join(first) + (f" and {rest} more" if rest else "")
        return [
            f"{self.files.project}: ignored until you trust this file: {keys}; read it, then: holdfast config trust"
        ]


def load_config(
    folder: str | None = None, *, home: Home | None = None, flags: Mapping[str, Any] | None = None
) -> Config:
    """Load the config for the repository of a folder; outside a repository there is no project file.

    Flags use dotted names.
    """
    home = home or Home()
    user, project = home.config_file, None if folder is None else config_files.project_file_path(folder)
    layers = [_layer_from_file("user", _read_user_file(user))]
    document = None if project is None else config_files.read_config(project)
    trusted = document is not None and config_files.is_trusted(home, document)
    ignored: tuple[IgnoredSetting, ...] = ()
    if document is not None:
        layer = _layer_from_file("project", document)
        if not trusted:
            free, guarded = split_by_trust(layer.table, _merge_layers(layers))
            ignored = tuple(
                IgnoredSetting(format_toml_path(path), _setting_value(path, found), layer.origin(path))
                for path, found in _all_leaves(guarded)
            )
            layer = layer._replace(table=free)
        elif "store" in layer.table:  # where all runs are is no matter of one repository, trusted or not
            store = IgnoredSetting("store", _setting_value(("store",), layer.table["store"]), layer.origin(("store",)))
            ignored = (*ignored, store)
            layer = layer._replace(table={key: value for key, value in layer.table.items() if key != "store"})
        layers.append(layer)
    layers.append(_layer_from_flags(flags or {}))
    settings = _merge_layers(layers)
    return Config(settings, tuple(layers), ignored, ConfigFiles(user, project, trusted))


def find_config_files(folder: str, home: Home | None = None) -> ConfigFiles:
    """Return where a folder's settings are read from. The files need not be valid."""
    home, project = home or Home(), config_files.project_file_path(folder)
    trusted = project is not None and config_files.is_trusted_now(home, project)
    return ConfigFiles(home.config_file, project, trusted)


def load_config_here(home: Home | None = None) -> Config:
    """Load the config for the current folder, if it still exists."""
    try:
        return load_config(os.getcwd(), home=home)
    except FileNotFoundError:
        return load_config(home=home)


def trust_project(folder: str, home: Home | None = None) -> tuple[str, dict[str, SettingValue]]:
    """Trust the current content of a project file. Returns the file and the settings that this enables."""
    home, file = home or Home(), config_files.project_file_path(folder)
    document = None if file is None else config_files.read_config(file)
    if document is None:
        raise NothingToDo(f"nothing to trust: there is no {file or f'repository at {folder}'}")
    user, project = (
        _layer_from_file("user", _read_user_file(home.config_file)),
        _layer_from_file("project", document),
    )
    guarded = split_by_trust(project.table, _merge_layers([user])).guarded
    _merge_layers([user, project])  # what is wrong cannot be trusted
    config_files.record_trust(home, document)
    return document.file, {format_toml_path(path): _setting_value(path, found) for path, found in _all_leaves(guarded)}


def _read_user_file(file: str) -> ConfigDocument | None:
    """The user's file. One that was asked for by name must be there."""
    document = config_files.read_config(file)
    if document is None and os.environ.get("HOLDFAST_CONFIG"):
        raise BadInput(f"HOLDFAST_CONFIG: there is no file {file}; `holdfast config init` writes one")
    return document


def _layer_from_file(name: str, document: ConfigDocument | None) -> _Layer:
    if document is None:
        return _Layer(name, {})
    layer = _Layer(name, document.table, document.file, document.lines)
    wrong: list[InvalidValue] = []
    table = validate_value(document.table, Settings, require_all=False, report=wrong.append)
    wrong += [InvalidValue(("roles", role), what) for role, what in mistakes_in_roles(table.get("roles", {}))]
    if wrong:
        raise BadFile([_mistake_from(layer.origin(error.path), error) for error in wrong])
    return layer._replace(table=table)


def roles_of_flag(name: str, value: Any) -> list[str]:
    """The roles that a flag of this dotted name is about."""
    try:
        table, *role = parse_key(name)
    except ValueError:
        return []  # which is told when it is used
    if table != "roles":
        return []
    return [str(role[0])] if role else [*value] if isinstance(value, dict) else []


def mistakes_in_roles(roles: Iterable[str]) -> list[tuple[str, str]]:
    """The names that are no roles, and what was probably meant."""
    return [(role, what) for role in roles if (what := mistake_in_role(role)) is not None]


def _layer_from_flags(flags: Mapping[str, Any]) -> _Layer:
    table: dict[str, Any] = {}
    for name, value in flags.items():
        try:
            *above, last = parse_key(name)
            inner: dict[str, Any] = {last: value}
            for part in reversed(above):
                inner = {part: inner}
            table = _merge_tables(table, validate_value(inner, Settings, require_all=False))
        except InvalidValue as error:
            raise BadInput(str(_mistake_from(Origin("flag"), error))) from None
        except ValueError as error:
            raise BadInput(str(error)) from None
    return _Layer("flag", table)


def _merge_layers(layers: list[_Layer]) -> Settings:
    table: dict[str, Any] = {}
    for layer in layers:
        table = _merge_tables(table, layer.table)
    try:
        settings = msgspec.convert(validate_value(table, Settings, require_all=True), Settings)
        _check_agent_commands(settings)
        _check_notify_targets(settings)
    except InvalidValue as error:
        raise BadInput(str(_mistake_from(_origin(layers, error.path), error))) from None
    return settings


def _check_agent_commands(settings: Settings) -> None:
    for name, entry in settings.agents.items():
        if entry.command is None and name not in BUILT_IN:
            raise InvalidValue(("agents", name), "the key 'command' is missing; we know no agent by this name")


def _check_notify_targets(settings: Settings) -> None:
    for name, target in settings.notify.items():
        if sum((target.desktop, target.webhook is not None, target.command is not None)) != 1:
            raise InvalidValue(("notify", name), "set one of `desktop = true`, `webhook` and `command`")


def _mistake_from(origin: Origin, error: InvalidValue) -> Mistake:
    return Mistake(
        origin.file or origin.layer, origin.line, format_toml_path(error.path) if error.path else "", error.problem
    )


def _merge_tables(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {**below}
    for key, value in above.items():
        current = both.get(key)
        both[key] = _merge_tables(current, value) if isinstance(current, dict) and isinstance(value, dict) else value
    return both


def _origin(layers: Sequence[_Layer], path: KeyPath) -> Origin:
    """Of the last layer that says something there."""
    return next((layer.origin(path) for layer in reversed(layers) if layer.has(path)), Origin("built-in"))


def _setting_value(path: KeyPath, data: Any) -> SettingValue:
    return SettingValue(data, to_toml(data, type_at(Settings, path)))


def _all_leaves(parts: Mapping[KeyPath, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for path, value in parts.items():
        yield from _leaves(value, path)


def _leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path, value
