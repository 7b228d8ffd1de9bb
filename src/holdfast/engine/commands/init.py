"""The first configuration: detects and tries the checks of a project, and writes the config files.

A file that exists keeps every line that the user did not agree to change.
"""

import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from holdfast.engine.checks.validators import CheckPlace, ValidatorOutcome, run_validators, validators_for
from holdfast.engine.config.config import load_config, trust_project
from holdfast.engine.config.files import create_config, project_file_path, read_config
from holdfast.engine.home import Home
from holdfast.engine.queries.setup.project import detect_setup
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import replace
from holdfast.workflows.validators import CheckCommand

__all__ = ["Project", "ValidatorOutcome", "detect_project", "try_checks", "write_project_config", "write_user_agent"]

CHECK_TIMEOUT_S = 120.0
_FAILPOINT = failpoint_pair("config.edit")
_HEAD = "# docs/configuration.md has every key; `holdfast config` shows the values in use.\n"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Project(NamedTuple):
    """A repository, the commands that check it, and the commands that set up a new worktree of it."""

    root: str
    checks: tuple[CheckCommand, ...]
    setup: tuple[tuple[str, ...], ...]
    config_file: str
    unusable: tuple[tuple[str, ...], ...] = ()  # setup commands of its lock files, whose programs are not installed
    detects_checks: bool = True  # runs look for checks, too; not if the user named them

    @property
    def has_config(self) -> bool:
        return os.path.lexists(self.config_file)


async def detect_project(
    home: Home, folder: str, own_checks: Sequence[str] = (), own_setup: Sequence[str] = ()
) -> Project | None:
    """Find the checks and setup of a folder's repository; None outside of one. Own commands replace found ones."""
    file = project_file_path(folder)
    if file is None:
        return None
    root = os.path.dirname(file)
    if own_checks:
        checks = tuple(_check_from(text) for text in own_checks)
    else:
        settings = load_config(folder, home=home).settings.validators
        checks = await validators_for(CheckPlace(root, "init"), settings)
    checks = tuple(check._replace(limit=CHECK_TIMEOUT_S) for check in checks)
    if own_setup:
        setup = tuple(_words(text, "--setup") for text in own_setup)
        return Project(root, checks, setup, file, detects_checks=not own_checks)
    found = detect_setup(root)
    unusable = tuple(words for words in found if os.sep not in words[0] and shutil.which(words[0]) is None)
    setup = tuple(words for words in found if words not in unusable)
    return Project(root, checks, setup, file, unusable, detects_checks=not own_checks)


def _check_from(text: str) -> CheckCommand:
    words = _words(text, "--check")
    named = words[1:3] if words[1:2] == ("-m",) else words[1:2]  # python3 -m unittest
    return CheckCommand(" ".join([os.path.basename(words[0]), *named]), words)


def _words(text: str, option: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadInput(f"{option} {text!r}: {error}; quote the command as for a shell") from None
    if not words:
        raise BadInput(f"{option} is empty; give a command, such as {option} 'npm test'")
    return words


async def try_checks(
    project: Project, on_done: Callable[[ValidatorOutcome], Awaitable[None]]
) -> list[ValidatorOutcome]:
    """Run each check once in the user's checkout, with a time limit."""
    return await run_validators(project.checks, CheckPlace(project.root, "init"), on_done)


def write_user_agent(home: Home, agent: str, model: str | None = None) -> str:
    """Make an agent the user's default. Adds or changes the lines `agent` and `model` of the config, no other."""
    file = home.config_file
    chosen = {"agent": agent, **({"model": model} if model is not None else {})}
    document = read_config(file)
    if document is None:
        create_config(file, _HEAD + "".join(f"{key} = {_toml(value)}\n" for key, value in chosen.items()))
        return file
    real = os.path.realpath(file)  # a config may be a link into a folder of dotfiles
    with open(real, encoding="utf-8") as source:
        lines = source.read().splitlines(keepends=True)
    for key, value in reversed(chosen.items()):
        line = f"{key} = {_toml(value)}\n"
        number = document.lines.get((key,)) if key in document.table else None
        lines[slice(*((0, 0) if number is None else (number - 1, number)))] = [line]
    text = "".join(lines)
    if not _says(text, {**document.table, **chosen}):  # such as a value of several lines
        raise BadInput(f"{file} cannot be changed safely; write this line into it: agent = {_toml(agent)}")
    _FAILPOINT.before()
    replace(real, text.encode())
    _FAILPOINT.after()
    return file


def _says(text: str, table: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == table
    except tomllib.TOMLDecodeError:
        return False


def write_project_config(home: Home, project: Project, failed: Sequence[str] = ()) -> str:
    """Write `.holdfast.toml` where there is none, and trust it as it is. `failed` are checks that fail now."""
    create_config(project.config_file, _project_text(project, failed))
    trust_project(project.root, home)
    return project.config_file


def _project_text(project: Project, failed: Sequence[str]) -> str:
    parts = [_HEAD]
    if project.setup:
        commands = "".join(f"  {_toml(list(words))},\n" for words in project.setup)
        parts.append(f"\n[worktree]\nsetup = [ # in each new worktree\n{commands}]\n")
    if not project.detects_checks:
        parts.append("\n[validators]\ndetect = false # only the checks below\n")
    for check in project.checks:
        key = check.name if _BARE_KEY.fullmatch(check.name) else _toml(check.name)
        note = "# It failed when this file was written.\n" if check.name in failed else ""
        parts.append(f"\n{note}[validators.commands.{key}]\ncommand = {_toml(list(check.words))}\n")
    return "".join(parts)


def _toml(value: str | list[str]) -> str:
    """JSON's strings and lists are TOML, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
