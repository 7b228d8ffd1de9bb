"""The run that a command works on: the one that is named, else the newest of this repository."""

import asyncio
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable, status_text
from holdfast.engine.home import Home
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
    matches = (run for wanted in status or ("",) for run in runs if wanted in ("", run.status))
    found = next(matches, None)
    if found is None:
        kind = " or ".join(status_text(wanted) for wanted in status)
        raise NothingToDo(
            f"this repository has no run{f' that is {kind}' if kind else ''}; list all runs with: holdfast ls"
        )
    goal = printable(" ".join((found.summary.goal or "").split()))
    sys.stderr.write(f"using {found.id} ({status_text(found.status)}){f': {goal}' if goal else ''}\n")
    return found.id
