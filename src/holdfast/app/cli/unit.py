"""`--install` and `--uninstall` of the commands that run for as long as the machine does."""

import argparse
import json
import sys

from holdfast.app.text.screen import printable
from holdfast.engine.commands.user_unit import (
    UserUnit,
    crontab_line,
    install_unit,
    is_systemd_running,
    uninstall_unit,
)
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_NEXT_STEPS = """\
wrote {file}

Start it now and at each login:
  {enable}
Start it at boot, without a login:
  {linger}
"""
_UPDATED = """\
Restart one that is running; its runs continue:
  {restart}
"""
_ENVIRONMENT = """
It has your PATH, but no API keys. Write the keys that your agents need, as NAME=value, into
~/.config/environment.d/holdfast.conf before you start it. What it does: journalctl --user -u {unit} -f
"""
_WITHOUT_SYSTEMD = """\
systemd does not run this machine; nothing was written. Add this line with `crontab -e`:

{line}

It has your PATH, but no API keys. Write the keys that your agents need, as NAME=value, above it.
"""
_UNINSTALLED = """\
deleted {file}

Stop it if it is running; its runs continue:
  {stop}
"""
_ENABLE = "systemctl --user daemon-reload && systemctl --user enable --now {unit}"
_LINGER = "loginctl enable-linger"
_RESTART = "systemctl --user restart {unit}"
_STOP = "systemctl --user stop {unit}; systemctl --user daemon-reload"


def add_unit_options(parser: argparse.ArgumentParser) -> None:
    at_boot = parser.add_mutually_exclusive_group()
    at_boot.add_argument("--install", action="store_true", help="write a systemd user unit that starts it at boot")
    at_boot.add_argument("--uninstall", action="store_true", help="delete that unit")


def install(home: Home, unit: UserUnit, *, as_json: bool) -> int:
    enable, restart = _ENABLE.format(unit=unit.name), _RESTART.format(unit=unit.name)
    if not is_systemd_running():
        line = crontab_line(home, unit)
        print(json.dumps({"crontab": line}) if as_json else _WITHOUT_SYSTEMD.format(line=line).rstrip())
        return EXIT_OK
    file, was_there = install_unit(home, unit)
    if as_json:
        print(json.dumps({"unit": file, "commands": [enable, *([restart] if was_there else []), _LINGER]}))
        return EXIT_OK
    text = _NEXT_STEPS.format(file=printable(file), enable=enable, linger=_LINGER)
    updated = _UPDATED.format(restart=restart) if was_there else ""
    sys.stdout.write(text + updated + _ENVIRONMENT.format(unit=unit.name))
    return EXIT_OK


def uninstall(unit: UserUnit, *, as_json: bool) -> int:
    file, stop = uninstall_unit(unit), _STOP.format(unit=unit.name)
    if as_json:
        print(json.dumps({"unit": file, "commands": [stop]}))
    else:
        sys.stdout.write(_UNINSTALLED.format(file=printable(file), stop=stop))
    return EXIT_OK
