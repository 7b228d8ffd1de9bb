"""Changes one setting in the user's config file, and leaves every other line as it is."""

import json
import os
import tomllib
from typing import Any

from holdfast.core.config.settings import Settings
from holdfast.core.config.toml_lines import format_toml_path, parse_key
from holdfast.core.config.validation import InvalidValue, validate_value
from holdfast.engine.config.files import create_config, read_config
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import replace

_FAILPOINT = failpoint_pair("config.change")


def change_user_setting(home: Home, key: str, value: Any) -> str:
    """Set a setting, or delete it with None. Returns the file. `BadInput` when it cannot be done safely."""
    try:
        path = parse_key(key)
    except ValueError as error:
        raise BadInput(str(error)) from None
    file = home.config_file
    document = read_config(file)
    table = document.table if document is not None else {}
    wanted = _with(table, path, value)
    try:
        validate_value(wanted, Settings, require_all=False)
    except InvalidValue as error:
        raise BadInput(f"{key}: {error}") from None
    if document is None:
        text = "" if value is None else _line_in_table(path, value)
        create_config(file, text)
        return file
    real = os.path.realpath(file)  # a config may be a link into a folder of dotfiles
    with open(real, encoding="utf-8") as source:
        lines = source.read().splitlines(keepends=True)
    number = document.lines.get(path)
    if number is not None:
        lines[number - 1 : number] = [] if value is None else [_assignment(path, lines[number - 1], value)]
    elif value is not None:
        _insert(lines, path, value)
    text = "".join(lines)
    if _parsed(text) != wanted:  # such as a value of several lines
        line = f"{format_toml_path(path)} = {_toml(value)}" if value is not None else f"without {key}"
        raise BadInput(f"{file} cannot be changed safely; edit it: {line}")
    _FAILPOINT.before()
    replace(real, text.encode())
    _FAILPOINT.after()
    return file


def _with(table: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = path
    below = table.get(first)
    if rest:
        changed = _with(below if isinstance(below, dict) else {}, tuple(rest), value)
        return {**table, first: changed} if changed or first in table else table
    return {**table, first: value} if value is not None else {key: each for key, each in table.items() if key != first}


def _assignment(path: tuple[str, ...], old: str, value: Any) -> str:
    """The line of a key with another value. The name stays as it is written there."""
    name = old.partition("=")[0].strip() or path[-1]
    return f"{name} = {_toml(value)}\n"


def _insert(lines: list[str], path: tuple[str, ...], value: Any) -> None:
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    if len(path) == 1:
        lines.insert(0, f"{format_toml_path(path)} = {_toml(value)}\n")
        return
    heading = f"[{format_toml_path(path[:-1])}]"
    for number, line in enumerate(lines):
        if line.partition("#")[0].strip() == heading:
            lines.insert(number + 1, f"{format_toml_path(path[-1:])} = {_toml(value)}\n")
            return
    lines.append(f"\n{_line_in_table(path, value)}")


def _line_in_table(path: tuple[str, ...], value: Any) -> str:
    heading = f"[{format_toml_path(path[:-1])}]\n" if len(path) > 1 else ""
    return f"{heading}{format_toml_path(path[-1:])} = {_toml(value)}\n"


def _toml(value: Any) -> str:
    """JSON's strings, numbers and lists are TOML, but for DEL; a table is written in one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{format_toml_path((key,))} = {_toml(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if value is None or (isinstance(value, float) and value in (float("inf"), float("-inf"))):
        raise BadInput(f"{value!r} is not a value of a setting")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
