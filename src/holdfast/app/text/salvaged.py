"""What was saved when a run was taken away, and the question before."""

import json
import sys

from holdfast.app.text.screen import counted, plain
from holdfast.engine.commands.archive import Estate
from holdfast.leaf.errors import Denied, HoldfastError


class NotConfirmed(HoldfastError):
    """The person said no."""


def confirm(run_id: str, estate: Estate | None, what: str) -> None:
    """Ask on a terminal; where nobody can answer, refuse."""
    for line in _told(estate):
        sys.stderr.write(f"  {line}\n")
    if not sys.stdin.isatty():
        raise Denied(f"nobody is here to confirm that {run_id} is to go; -y says so")
    sys.stderr.write(f"{what} {plain(run_id)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed(f"{run_id} was left as it is")


def _told(estate: Estate | None) -> list[str]:
    if estate is None:
        return ["it has nothing in any repository"]
    commits = f"{counted(estate.unmerged, 'commit')} in no branch of yours, to be saved under refs/holdfast/salvage"
    there = (("branch", estate.branches), ("worktree", estate.worktrees))
    told = [f"{counted(len(names), thing)}: {', '.join(map(plain, names))}" for thing, names in there if names]
    return [*told, *([commits] if estate.unmerged else [])] or ["it has nothing in the repository any more"]


def print_retired(run_id: str, done: str, salvaged: list[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"id": run_id, done: True, "salvaged": salvaged}, ensure_ascii=False))
        return
    print(f"{plain(run_id)}  {done}")
    for ref in salvaged:
        print(f"  saved  {plain(ref)}")
    if salvaged:
        sys.stderr.write("`holdfast salvage show` and `restore` bring it back\n")


def print_nothing_left(name: str, reason: str, *, as_json: bool) -> None:
    """A script that resets a run twice has what it wants: the run is gone."""
    if as_json:
        print(json.dumps({"id": name, "reset": False, "salvaged": [], "reason": reason}, ensure_ascii=False))
    else:
        sys.stderr.write(f"nothing to reset: {plain(reason)}\n")
