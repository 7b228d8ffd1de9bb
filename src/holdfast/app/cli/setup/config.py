"""`holdfast config`: show settings and their origins."""

import json
import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import column_widths, paint, printable, shorten_to_width, warn
from holdfast.core.config.settings_docs import example_file, settings_schema
from holdfast.engine.commands.settings import create_config, trust_project
from holdfast.engine.home import Home
from holdfast.engine.queries.setup.settings import (
    Config,
    Origin,
    SettingValue,
    find_config_files,
    load_config,
    load_config_here,
)
from holdfast.leaf.errors import EXIT_OK, BadInput, HoldfastError

_EXAMPLES = """\
  holdfast config                        all settings, with values and origins
  holdfast config caps                   the settings of one table; also one key: caps.iterations
  holdfast config init                   write a commented example file
  holdfast config path                   which files are read
  holdfast config trust                  let this repository's .holdfast.toml run commands and widen permissions
  holdfast config schema > schema.json   JSON schema, for your editor"""

_MAX_VALUE_COLUMNS = 80


class _Row(NamedTuple):
    key: str
    value: SettingValue
    origin: Origin
    trusted: bool = True


def run(arguments: list[str]) -> int:
    parser = Parser(
        "config",
        "Show settings and their origins. Your own file overrides the defaults, .holdfast.toml of the repository\n"
        "overrides your file, and flags override both. docs/configuration.md lists every key.",
        _EXAMPLES,
    )
    actions = {"init": _init, "path": _path, "schema": _schema, "trust": _trust}
    parser.add_argument("what", nargs="?", metavar=f"KEY|{'|'.join(actions)}", help="a setting, a table, or an action")
    parser.add_argument("--repo", metavar="DIR", help="the repository (default: the current one)")
    options = parser.parse_args(arguments)
    if options.what in actions:
        actions[options.what](options.repo or ".", as_json=options.json)
    else:
        config = load_config(options.repo) if options.repo is not None else load_config_here()
        _show(config, options.what, as_json=options.json)
        if options.what in (None, "store"):
            _describe_store()
    return EXIT_OK


def _describe_store() -> None:
    """Say which database keeps the runs, and whether it answers."""
    home = Home()
    if home.store_url is None:
        return
    try:
        text = f"runs are kept in {home.index.describe()}"
    except HoldfastError as error:
        text = str(error)
    sys.stderr.write(f"{printable(text)}\n")


def _show(config: Config, wanted_key: str | None, *, as_json: bool) -> None:
    rows = [row for row in _rows(config) if wanted_key is None or _is_in(row.key, wanted_key)]
    if not rows:
        near = get_close_matches(wanted_key or "", _names(config), n=1)
        instead = (
            f"did you mean {near[0]}?" if near else "holdfast config lists all; holdfast config path names the files"
        )
        raise BadInput(f"unknown setting {wanted_key!r}; {instead}")
    warn(config.warnings)
    if as_json:
        for row in rows:
            print(json.dumps(_row_as_json(row), ensure_ascii=False))
        return
    cells = [
        (
            printable(row.key),
            shorten_to_width(printable(row.value.toml), _MAX_VALUE_COLUMNS),
            printable(str(row.origin)),
        )
        for row in rows
    ]
    widths = column_widths(cells)
    for row, (key, value, origin) in zip(rows, cells, strict=True):
        origin_text = origin if row.trusted else f"{origin}  not trusted"
        colour = "yellow" if not row.trusted else "dim" if row.origin.file is None else "cyan"
        print(f"{key:{widths[0]}}  {value:{widths[1]}}  {paint(origin_text, colour)}")


def _rows(config: Config) -> Iterator[_Row]:
    for key, value in config.values.items():
        yield _Row(key, value, config.origins[key])
    for ignored in config.ignored:
        yield _Row(ignored.key, ignored.value, ignored.origin, trusted=False)


def _names(config: Config) -> list[str]:
    """Return all keys and tables."""
    parts = (key.split(".") for key in config.values)
    return sorted({".".join(words[:count]) for words in parts for count in range(1, len(words) + 1)})


def _is_in(key: str, table: str) -> bool:
    return key == table or key.startswith(f"{table}.")


def _row_as_json(row: _Row) -> dict[str, Any]:
    return {"key": row.key, "value": row.value.data, **row.origin._asdict(), "trusted": row.trusted}


def _init(_: str, *, as_json: bool) -> None:
    file = Home().config_file
    create_config(file, example_file())
    print(json.dumps({"file": file}, ensure_ascii=False) if as_json else printable(file))


def _schema(_: str, *, as_json: bool) -> None:
    print(json.dumps(settings_schema(), indent=None if as_json else 2, ensure_ascii=False))


def _path(folder: str, *, as_json: bool) -> None:
    files = find_config_files(folder)
    for layer, file in (("user", files.user), ("project", files.project)):
        if file is None:
            continue
        exists = os.path.exists(file)
        trusted = layer == "user" or files.trusted
        if as_json:
            found = {"layer": layer, "file": file, "exists": exists, "trusted": trusted}
            print(json.dumps(found, ensure_ascii=False))
        else:
            status = "" if exists and trusted else "not trusted" if exists else "does not exist"
            print(f"{layer:7}  {printable(file)}  {paint(status, 'dim')}".rstrip())


def _trust(folder: str, *, as_json: bool) -> None:
    file, guarded = trust_project(folder, Home())
    if as_json:
        print(
            json.dumps(
                {"file": file, "trusted": {key: value.data for key, value in guarded.items()}}, ensure_ascii=False
            )
        )
        return
    for key, value in guarded.items():
        print(f"{printable(key)}  {printable(value.toml)}")
    warn([f"trusted {file} as it is now; if it changes, trust it again"])
