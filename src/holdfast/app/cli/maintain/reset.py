"""`holdfast reset`: delete a run: its worktrees, branches and folder."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.salvaged import confirm_removal, print_nothing_to_reset, print_removed
from holdfast.engine.commands.archive import reset, run_resources
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, NoSuchRun

_EXAMPLES = """\
  holdfast reset auth-system       lists what it would delete, then asks
  holdfast reset auth-system -y    for scripts"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "reset",
        "Delete a run's worktrees, branches and folder. Work that is in no branch of yours is saved first\n"
        "(`holdfast salvage`). After an interruption, call it again to finish. With -y, resetting a run that does\n"
        "not exist is not an error.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    options = parser.parse_args(arguments)
    home = Home()
    try:
        run_id = home.find_run(options.run)
    except NoSuchRun as error:
        if not options.yes:
            raise
        print_nothing_to_reset(options.run, str(error), as_json=options.json)
        return EXIT_OK
    if not options.yes:
        confirm_removal(run_id, asyncio.run(run_resources(home, run_id)), "Reset")
    print_removed(run_id, "reset", asyncio.run(reset(home, run_id)), as_json=options.json)
    return EXIT_OK
