"""`holdfast reset`: delete a run: its worktrees, branches and folder."""

import argparse
import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.listing import all_runs
from holdfast.app.cli.maintain.selection import add_selection, check_selection, confirm_all, for_each, old_runs
from holdfast.app.cli.maintain.undelivered import tell_undelivered
from holdfast.app.text.salvaged import confirm_removal, print_nothing_to_reset, print_removed
from holdfast.engine.commands.archive import reset, run_resources
from holdfast.engine.home import Home
from holdfast.leaf.errors import NoSuchRun

_EXAMPLES = """\
  holdfast reset auth-system       lists what it would delete, then asks
  holdfast reset auth-system -y    for scripts
  holdfast reset --older-than 90d  lists the runs, then asks once"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "reset",
        "Delete a run's worktrees, branches and folder. Work that is in no branch of yours is saved first\n"
        "(`holdfast salvage`). After an interruption, call it again to finish. With -y, resetting a run that does\n"
        "not exist is not an error.",
        _EXAMPLES,
    )
    add_selection(parser)
    options = parser.parse_args(arguments)
    check_selection(options)
    home = Home()
    if options.older_than is not None:
        runs = old_runs(all_runs(home), options.older_than)
        if not options.yes:
            for run in runs:
                tell_undelivered(home, run.id)
            confirm_all(runs, "Reset")
        return for_each([run.id for run in runs], lambda run_id: _reset(home, run_id, options))
    return for_each(options.runs, lambda name: _reset_named(home, name, options))


def _reset_named(home: Home, name: str, options: argparse.Namespace) -> None:
    try:
        run_id = home.find_run(name)
    except NoSuchRun as error:
        if not options.yes:
            raise
        print_nothing_to_reset(name, str(error), as_json=options.json)
        return
    if not options.yes:
        tell_undelivered(home, run_id)
        confirm_removal(run_id, asyncio.run(run_resources(home, run_id)), "Reset")
    _reset(home, run_id, options)


def _reset(home: Home, run_id: str, options: argparse.Namespace) -> None:
    if options.yes:
        tell_undelivered(home, run_id)
    print_removed(run_id, "reset", asyncio.run(reset(home, run_id)), as_json=options.json)
