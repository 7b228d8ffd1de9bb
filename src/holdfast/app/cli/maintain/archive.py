"""`holdfast archive`: delete a run's worktrees and branches, keep its log."""

import argparse
import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.listing import all_runs
from holdfast.app.cli.maintain.selection import add_selection, check_selection, confirm_all, for_each, old_runs
from holdfast.app.cli.maintain.undelivered import confirm_undelivered, tell_undelivered
from holdfast.app.text.salvaged import print_removed
from holdfast.engine.commands.archive import archive
from holdfast.engine.home import Home

_EXAMPLES = """\
  holdfast archive auth-system
  holdfast archive --older-than 30d      lists the runs, then asks
  holdfast archive auth-system --json | jq -r '.salvaged[]'    print what was saved"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "archive",
        "Delete a run's worktrees and branches, and keep its log for `show`, `logs` and `verify`. Work that is in no\n"
        "branch of yours is saved first (`holdfast salvage`). Messages that no agent has read are named, and asked\n"
        "about.",
        _EXAMPLES,
    )
    add_selection(parser)
    options = parser.parse_args(arguments)
    check_selection(options)
    home = Home()
    if options.older_than is not None:
        runs = old_runs(all_runs(home), options.older_than, skipped=("archived",))
        if not options.yes:
            for run in runs:
                tell_undelivered(home, run.id)
            confirm_all(runs, "Archive")
        run_ids = [run.id for run in runs]
    else:
        run_ids = [home.find_run(name) for name in options.runs]
        if not options.yes:
            confirm_undelivered(home, run_ids, "Archive")
    return for_each(run_ids, lambda run_id: _archive(home, run_id, options))


def _archive(home: Home, run_id: str, options: argparse.Namespace) -> None:
    if options.yes:
        tell_undelivered(home, run_id)
    print_removed(run_id, "archived", asyncio.run(archive(home, run_id)), as_json=options.json)
