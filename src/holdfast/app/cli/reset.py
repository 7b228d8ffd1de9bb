"""`holdfast reset`: take a run away, in the repository and at home."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.retired import confirm, print_retired
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.retiring import estate_of, reset
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast reset auth-system       asks first, and tells what would go
  holdfast reset auth-system -y    for scripts"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "reset",
        "Remove a run's worktrees, branches and folder; the repository is as it was before the run. What no branch of\n"
        "yours has is saved first (`holdfast salvage`). Cut off, it is finished by calling it again.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    if not options.yes:
        confirm(run_id, asyncio.run(estate_of(home, run_id)), "Reset")
    print_retired(run_id, "reset", asyncio.run(reset(home, run_id)), as_json=options.json)
    return OK
