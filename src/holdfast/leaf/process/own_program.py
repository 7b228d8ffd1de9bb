"""Holdfast's own programs: commands that start them, and an environment in which others do not find them.

`python -m` searches the current folder for modules first. Our programs often start in a worktree, where an agent or a
repository may have put a `json.py` or a `holdfast/`: it would run instead, outside of any sandbox. `-P` excludes the
current folder.
"""

import os
import sys
from collections.abc import Mapping


def holdfast_command(*arguments: str, module: str = "holdfast") -> tuple[str, ...]:
    """The command that runs a module of ours with the current interpreter."""
    return (sys.executable, "-P", "-m", module, *arguments)


def without_own_programs(path: str) -> str:
    """PATH without the virtual environment that Holdfast runs in: its pytest is not the project's."""
    if sys.prefix == sys.base_prefix:
        return path
    own = {os.path.join(prefix, "bin") for prefix in (sys.prefix, os.path.realpath(sys.prefix))}
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.normpath(entry) not in own)


def without_own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program of the project: not as if Holdfast's virtual environment were activated for it."""
    given = dict(environment)
    if "PATH" in given:
        given["PATH"] = without_own_programs(given["PATH"])
    if sys.prefix != sys.base_prefix and os.path.realpath(given.get("VIRTUAL_ENV", "")) == os.path.realpath(sys.prefix):
        del given["VIRTUAL_ENV"]
    return given
