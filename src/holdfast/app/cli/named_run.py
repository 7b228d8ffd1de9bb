"""The run that a command works on: the one that is named, else the newest of this repository."""

import asyncio
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable, status_text
from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun
from holdfast.leaf.errors import NothingToDo


def add_run(parser: Parser, default: str = "the newest of this repository") -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"id, start of an id, or slug (default: {default})")


def find_run(home: Home, name: str | None, *status: str) -> str:
    """Return the id of the named run, else of the newest run of this repository, and say which one that is.

    With statuses, a run that has the first of them is preferred to one that has the next, and so on; "" is any status.
    """
    if name is not None:
        return home.find_run(name)
    from holdfast.engine.queries.resumable import runs_here  # slow imports that a named run does not need

    runs = asyncio.run(runs_here(home, os.getcwd()))
    if runs is None:
        raise NothingToDo(f"{os.getcwd()} is in no git repository; name a run, or list all with: holdfast ls")
    matches = (run for wanted in status or ("",) for run in runs if wanted in ("", run.status))
    found = next(matches, None)
    if found is None:
        kind = " or ".join(status_text(wanted) for wanted in status) if "" not in status else ""
        raise NothingToDo(
            f"this repository has no run{f' that is {kind}' if kind else ''}; list all runs with: holdfast ls"
        )
    print_chosen(found)
    return found.id


def print_chosen(run: ListedRun) -> None:
    """Say which run a command works on that was given none."""
    goal = printable(" ".join((run.summary.goal or "").split()))
    sys.stderr.write(f"using {run.id} ({status_text(run.status)}){f': {goal}' if goal else ''}\n")
