"""The systemd user unit that starts `holdfast watch` at boot, and the crontab line for machines without systemd.

A service starts with almost no environment. The unit has the PATH of the shell that wrote it, so that watch finds the
same agents, and the variables that say where Holdfast keeps its runs and settings. It never has a key.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.leaf.process.own_program import holdfast_command

UNIT = "holdfast-watch"
_MARKER = "# Written by `holdfast watch --install`; `holdfast watch --uninstall` deletes it."
_PASSED_ON = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_ANSWER_TIMEOUT_S = 10
_FAILPOINT = failpoint_pair("watch.unit")

# KillMode and OOMPolicy keep a restart of watch, or one process that runs out of memory, from ending the runs.
_TEMPLATE = """\
{marker}
[Unit]
Description=Holdfast: resume interrupted runs

[Service]
ExecStart={command}
{environment}Restart=always
RestartSec=10
SuccessExitStatus=130
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


class InstalledUnit(NamedTuple):
    file: str
    was_there: bool  # a running watch still has the settings of the unit that was replaced


def unit_file() -> str:
    return os.path.join(_unit_folder(), f"{UNIT}.service")


def _unit_folder() -> str:
    return os.path.join(os.path.expanduser("~"), ".config", "systemd", "user")


def is_systemd_running() -> bool:
    """Whether systemd runs this machine. A container often has systemctl without it."""
    try:
        answer = subprocess.run(
            ("systemctl", "is-system-running"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() not in (b"", b"offline")


def install_unit(home: Home) -> InstalledUnit:
    """Write the unit, or replace one that was written by this function."""
    file = unit_file()
    was_there = os.path.lexists(file)
    if was_there and not _is_ours(file):
        raise BadInput(f"{file} was not written by Holdfast; move it away, then repeat this command")
    make_directories(_unit_folder())
    _FAILPOINT.before()
    replace(file, _unit_text(_environment(home)).encode())
    _FAILPOINT.after()
    return InstalledUnit(file, was_there)


def uninstall_unit() -> str:
    """Delete the unit, and the link by which systemd starts it."""
    file = unit_file()
    if not os.path.lexists(file):
        raise NothingToDo(f"{file} does not exist; nothing to uninstall")
    if not _is_ours(file):
        raise BadInput(f"{file} was not written by Holdfast; it was left alone")
    link = os.path.join(_unit_folder(), "default.target.wants", f"{UNIT}.service")
    _FAILPOINT.before()
    if os.path.islink(link):
        os.unlink(link)
    os.unlink(file)
    sync_directory(_unit_folder())
    _FAILPOINT.after()
    return file


def crontab_line(home: Home) -> str:
    environment = (f"{name}={shlex.quote(value)}" for name, value in _environment(home).items())
    log = shlex.quote(os.path.join(home.path, "watch.log"))
    command = " ".join((*environment, shlex.join(holdfast_command("watch")), f">> {log} 2>&1"))
    return f"@reboot {command.replace('%', chr(92) + '%')}"  # cron takes a bare % for the end of the command


def _is_ours(file: str) -> bool:
    if os.path.islink(file) or not os.path.isfile(file):
        return False
    with open(file, "rb") as unit:
        return unit.readline().rstrip(b"\n") == _MARKER.encode()


def _environment(home: Home) -> dict[str, str]:
    given = {name: value for name in _PASSED_ON if (value := os.environ.get(name))}
    return {**given, "HOLDFAST_HOME": home.path} if os.environ.get("HOLDFAST_HOME") else given


def _unit_text(environment: Mapping[str, str]) -> str:
    command = " ".join(_quote(word).replace("$", "$$") for word in holdfast_command("watch"))
    lines = "".join(f"Environment={_quote(f'{name}={value}')}\n" for name, value in environment.items())
    return _TEMPLATE.format(marker=_MARKER, command=command, environment=lines)


def _quote(word: str) -> str:
    """One word as systemd reads it: in quotes, with C escapes; %% is a percent sign."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        word = word.replace(character, escaped)
    return f'"{word}"'
