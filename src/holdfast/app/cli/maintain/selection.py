"""The runs that `archive` and `reset` work on: those that are named, or all that were last active long ago."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.confirm import is_confirmed
from holdfast.app.text.salvaged import NotConfirmed
from holdfast.app.text.screen import format_time, printable, status_text
from holdfast.engine.queries.runs import ListedRun
from holdfast.leaf.clock import now
from holdfast.leaf.errors import EXIT_OK, BadInput, Denied, HoldfastError, NothingToDo

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_KEPT = ("running", "unreadable")


def add_selection(parser: Parser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="*", help="id, start of an id, or slug")
    parser.add_argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="instead of RUN: all runs of any repository last active before that, such as 30d, 12h or 2w; asks once",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age; write a number and h, d or w, such as 30d")
    return int(match[1]) * _UNITS[match[2]]


def old_runs(runs: Sequence[ListedRun], older_than: timedelta, skipped: Sequence[str] = ()) -> list[ListedRun]:
    """Return the runs that were last active longer ago, and are not at work. `skipped` are further statuses."""
    before = datetime.fromisoformat(now()) - older_than
    runs = [run for run in runs if run.status not in (*_KEPT, *skipped) and _was_active(run) < before]
    if not runs:
        raise NothingToDo("no run is that old; list the runs with: holdfast ls")
    return runs


def check_selection(options: argparse.Namespace) -> None:
    if bool(options.runs) == (options.older_than is not None):
        raise BadInput("name runs, or pass --older-than AGE; list the runs with: holdfast ls")


def confirm_all(runs: Sequence[ListedRun], action: str) -> None:
    """List the runs and ask once. Without a terminal, raise `Denied`."""
    for run in runs:
        where = os.path.basename(os.path.dirname(run.summary.repo or "")) or "-"
        sys.stderr.write(
            f"  {run.id}  {status_text(run.status)}  {where}  {format_time(run.summary.updated)[:16]}"
            f"  {printable(run.summary.goal or '')}\n"
        )
    if not sys.stdin.isatty():
        raise Denied(f"not a terminal, so nothing changed; pass -y to {action.lower()} these {len(runs)} runs")
    if not is_confirmed(f"{action} {'this run' if len(runs) == 1 else f'these {len(runs)} runs'}"):
        raise NotConfirmed("cancelled; nothing changed")


def for_each(run_ids: Sequence[str], act: Callable[[str], None]) -> int:
    """Act on each run. An error with one of several does not stop the others; returns the first exit code."""
    code = EXIT_OK
    for run_id in run_ids:
        try:
            act(run_id)
        except HoldfastError as error:
            if len(run_ids) == 1:
                raise
            sys.stderr.write(f"holdfast: {run_id}: {printable(str(error))}\n")
            code = code or error.exit_code
    return code


def _was_active(run: ListedRun) -> datetime:
    try:
        return datetime.fromisoformat(run.summary.updated or run.summary.created or "")
    except ValueError:
        return datetime.fromisoformat(now())
