"""`holdfast config`: what is set, and where each value came from."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import columns, paint, plain, shortened, warn
from holdfast.core.config.settings_docs import example, schema
from holdfast.core.config.validation import instead_of
from holdfast.engine.config.config import Config, Origin, Value, files_for, load, load_here, trust
from holdfast.engine.config.files import user_file, write_first
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK, BadInput

_EXAMPLES = """\
  holdfast config                        every setting, its value, and where that came from
  holdfast config caps                   those of one table; or of one key: caps.iterations
  holdfast config init                   write a commented example, to begin with
  holdfast config path                   which files are looked at
  holdfast config trust                  let this repository's .holdfast.toml run commands and widen permissions
  holdfast config schema > schema.json   JSON schema, for your editor"""

_WIDTH = 80  # of a value


class _Row(NamedTuple):
    key: str
    value: Value
    origin: Origin
    trusted: bool = True


def run(arguments: list[str]) -> int:
    parser = Parser(
        "config",
        "What is set. Built-in values come first, then the user's file, then .holdfast.toml of the repository, then\n"
        "flags. docs/configuration.md has every key.",
        _EXAMPLES,
    )
    actions = {"init": _init, "path": _path, "schema": _schema, "trust": _trust}
    parser.add_argument("what", nargs="?", metavar=f"KEY|{'|'.join(actions)}", help="a setting, a table, or what to do")
    parser.add_argument("--repo", metavar="DIR", help="the repository; else the one you are in")
    options = parser.parse_args(arguments)
    if options.what in actions:
        actions[options.what](options.repo or ".", as_json=options.json)
    else:
        config = load(options.repo) if options.repo is not None else load_here()
        _show(config, options.what, as_json=options.json)
    return OK


def _show(config: Config, asked: str | None, *, as_json: bool) -> None:
    rows = [row for row in _rows(config) if asked is None or _is_in(row.key, asked)]
    if not rows:
        raise BadInput(f"there is no setting {asked!r}; {instead_of(asked or '', _names(config))}")
    warn(config.warnings)
    if as_json:
        for row in rows:
            print(json.dumps(_object(row), ensure_ascii=False))
        return
    cells = [(plain(row.key), shortened(plain(row.value.written), _WIDTH), plain(str(row.origin))) for row in rows]
    widths = columns(cells)
    for row, (key, value, origin) in zip(rows, cells, strict=True):
        told = origin if row.trusted else f"{origin}  not trusted"
        colour = "yellow" if not row.trusted else "dim" if row.origin.file is None else "cyan"
        print(f"{key:{widths[0]}}  {value:{widths[1]}}  {paint(told, colour)}")


def _rows(config: Config) -> Iterator[_Row]:
    for key, value in config.values.items():
        yield _Row(key, value, config.origins[key])
    for ignored in config.ignored:
        yield _Row(ignored.key, ignored.value, ignored.origin, trusted=False)


def _names(config: Config) -> list[str]:
    """Every key, and every table above one."""
    parts = (key.split(".") for key in config.values)
    return sorted({".".join(words[:count]) for words in parts for count in range(1, len(words) + 1)})


def _is_in(key: str, asked: str) -> bool:
    return key == asked or key.startswith(f"{asked}.")


def _object(row: _Row) -> dict[str, Any]:
    return {"key": row.key, "value": row.value.data, **row.origin._asdict(), "trusted": row.trusted}


def _init(_: str, *, as_json: bool) -> None:
    file = user_file()
    write_first(file, example())
    print(json.dumps({"file": file}, ensure_ascii=False) if as_json else plain(file))


def _schema(_: str, *, as_json: bool) -> None:
    print(json.dumps(schema(), indent=None if as_json else 2, ensure_ascii=False))


def _path(folder: str, *, as_json: bool) -> None:
    files = files_for(folder)
    for layer, file in (("user", files.user), ("project", files.project)):
        if file is None:
            continue
        there = os.path.exists(file)
        trusted = layer == "user" or files.trusted
        if as_json:
            found = {"layer": layer, "file": file, "exists": there, "trusted": trusted}
            print(json.dumps(found, ensure_ascii=False))
        else:
            told = "" if there and trusted else "not trusted" if there else "not there"
            print(f"{layer:7}  {plain(file)}  {paint(told, 'dim')}".rstrip())


def _trust(folder: str, *, as_json: bool) -> None:
    file, guarded = trust(folder, default_home())
    if as_json:
        print(
            json.dumps(
                {"file": file, "trusted": {key: value.data for key, value in guarded.items()}}, ensure_ascii=False
            )
        )
        return
    for key, value in guarded.items():
        print(f"{plain(key)}  {plain(value.written)}")
    warn([f"{file} is trusted as it is now; when it changes, you are asked again"])
