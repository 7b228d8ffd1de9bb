"""Asks before a run is removed, and prints what was saved."""

import json
import sys

from holdfast.app.text.confirm import is_confirmed
from holdfast.app.text.screen import pluralize, printable
from holdfast.engine.commands.archive import RunResources
from holdfast.leaf.errors import Denied, HoldfastError


class NotConfirmed(HoldfastError):
    """The person answered no."""


def confirm_removal(run_id: str, resources: RunResources | None, action: str) -> None:
    """Ask on a terminal. Without a terminal, raise `Denied`."""
    for line in _resource_lines(resources):
        sys.stderr.write(f"  {line}\n")
    if not sys.stdin.isatty():
        raise Denied(f"not a terminal, so {run_id} was not removed; pass -y to confirm")
    if not is_confirmed(f"{action} {printable(run_id)}"):
        raise NotConfirmed(f"cancelled; {run_id} was not changed")


def _resource_lines(resources: RunResources | None) -> list[str]:
    if resources is None:
        return ["no branches or worktrees in any repository"]
    commits = (
        f"{pluralize(resources.unmerged, 'commit')} in no branch of yours; saved first, under refs/holdfast/salvage"
    )
    kinds = (("branch", resources.branches), ("worktree", resources.worktrees))
    lines = [f"{pluralize(len(names), thing)}: {', '.join(map(printable, names))}" for thing, names in kinds if names]
    return [*lines, *([commits] if resources.unmerged else [])] or ["no branches or worktrees in the repository"]


def print_removed(run_id: str, done: str, salvaged: list[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"id": run_id, done: True, "salvaged": salvaged}, ensure_ascii=False))
        return
    print(f"{printable(run_id)}  {done}")
    for ref in salvaged:
        print(f"  saved  {printable(ref)}")
    if salvaged:
        sys.stderr.write("see it with: holdfast salvage show NAME; restore it with: holdfast salvage restore NAME\n")


def print_nothing_to_reset(name: str, reason: str, *, as_json: bool) -> None:
    """Not an error: a script that resets a run twice has what it wants."""
    if as_json:
        print(json.dumps({"id": name, "reset": False, "salvaged": [], "reason": reason}, ensure_ascii=False))
    else:
        sys.stderr.write(f"nothing to reset: {printable(reason)}\n")
