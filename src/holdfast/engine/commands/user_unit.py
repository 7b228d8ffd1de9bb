"""The systemd user units that start `holdfast watch` or `holdfast serve` at boot; crontab lines without systemd.

A service starts with almost no environment. A unit has the PATH of the shell that wrote it, so that it finds the
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

_MARKER = "# Written by `holdfast {name} --install`; `holdfast {name} --uninstall` deletes it."
_PASSED_ON = ("PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_ANSWER_TIMEOUT_S = 10
_FAILPOINT = failpoint_pair("watch.unit")

# KillMode and OOMPolicy keep a restart of it, or one process that runs out of memory, from ending the runs.
_TEMPLATE = """\
{marker}
[Unit]
Description=Holdfast: {about}

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


class UserUnit(NamedTuple):
    """A command that runs for as long as the machine does. `arguments` follow its name."""

    command: str
    about: str
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"holdfast-{self.command}"

    @property
    def file(self) -> str:
        return os.path.join(_unit_folder(), f"{self.name}.service")

    @property
    def marker(self) -> str:
        return _MARKER.format(name=self.command)

    @property
    def program(self) -> tuple[str, ...]:
        return holdfast_command(self.command, *self.arguments)


class InstalledUnit(NamedTuple):
    file: str
    was_there: bool  # a running one still has the settings of the unit that was replaced


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


def install_unit(home: Home, unit: UserUnit) -> InstalledUnit:
    """Write the unit, or replace one that was written by this function."""
    file = unit.file
    was_there = os.path.lexists(file)
    if was_there and not _is_ours(unit):
        raise BadInput(f"{file} was not written by Holdfast; move it away, then repeat this command")
    make_directories(_unit_folder())
    _FAILPOINT.before()
    replace(file, _unit_text(unit, _environment(home)).encode())
    _FAILPOINT.after()
    return InstalledUnit(file, was_there)


def uninstall_unit(unit: UserUnit) -> str:
    """Delete the unit, and the link by which systemd starts it."""
    file = unit.file
    if not os.path.lexists(file):
        raise NothingToDo(f"{file} does not exist; nothing to uninstall")
    if not _is_ours(unit):
        raise BadInput(f"{file} was not written by Holdfast; it was left alone")
    link = os.path.join(_unit_folder(), "default.target.wants", f"{unit.name}.service")
    _FAILPOINT.before()
    if os.path.islink(link):
        os.unlink(link)
    os.unlink(file)
    sync_directory(_unit_folder())
    _FAILPOINT.after()
    return file


def crontab_line(home: Home, unit: UserUnit) -> str:
    environment = (f"{name}={shlex.quote(value)}" for name, value in _environment(home).items())
    log = shlex.quote(os.path.join(home.path, f"{unit.command}.log"))
    command = " ".join((*environment, shlex.join(unit.program), f">> {log} 2>&1"))
    return f"@reboot {command.replace('%', chr(92) + '%')}"  # cron takes a bare % for the end of the command


def _is_ours(unit: UserUnit) -> bool:
    file = unit.file
    if os.path.islink(file) or not os.path.isfile(file):
        return False
    with open(file, "rb") as written:
        return written.readline().rstrip(b"\n") == unit.marker.encode()


def _environment(home: Home) -> dict[str, str]:
    if os.environ.get("HOLDFAST_STORE"):
        raise BadInput(
            "a unit does not get HOLDFAST_STORE, which may have a password; write store = "
            f'"{home.place}" into {home.config_file}, the password into ~/.pgpass, and unset the variable'
        )
    given = {name: value for name in _PASSED_ON if (value := os.environ.get(name))}
    return {**given, "HOLDFAST_HOME": home.path} if os.environ.get("HOLDFAST_HOME") else given


def _unit_text(unit: UserUnit, environment: Mapping[str, str]) -> str:
    command = " ".join(_quote(word).replace("$", "$$") for word in unit.program)
    lines = "".join(f"Environment={_quote(f'{name}={value}')}\n" for name, value in environment.items())
    return _TEMPLATE.format(marker=unit.marker, about=unit.about, command=command, environment=lines)


def _quote(word: str) -> str:
    """One word as systemd reads it: in quotes, with C escapes; %% is a percent sign."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        word = word.replace(character, escaped)
    return f'"{word}"'
