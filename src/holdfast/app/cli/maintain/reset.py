"""`holdfast reset`: take a run away, in the repository and at home."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.salvaged import confirm, print_nothing_left, print_retired
from holdfast.engine.commands.archive import estate_of, reset
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK, NoSuchRun

_EXAMPLES = """\
  holdfast reset auth-system       asks first, and tells what would go
  holdfast reset auth-system -y    for scripts"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "reset",
        "Remove a run's worktrees, branches and folder; the repository is as it was before the run. What no branch of\n"
        "yours has is saved first (`holdfast salvage`). Call it again to finish one that was interrupted; with -y,\n"
        "resetting a run that is already gone is no error.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    options = parser.parse_args(arguments)
    home = default_home()
    try:
        run_id = find_run(home, options.run)
    except NoSuchRun as error:
        if not options.yes:
            raise
        print_nothing_left(options.run, str(error), as_json=options.json)
        return OK
    if not options.yes:
        confirm(run_id, asyncio.run(estate_of(home, run_id)), "Reset")
    print_retired(run_id, "reset", asyncio.run(reset(home, run_id)), as_json=options.json)
    return OK
