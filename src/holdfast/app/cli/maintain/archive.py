"""`holdfast archive`: keep a run's log and drop the rest."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.salvaged import print_retired
from holdfast.engine.commands.archive import archive
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast archive auth-system
  holdfast archive auth-system --json | jq -r '.salvaged[]'    what was saved, for a script"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "archive",
        "Remove a run's worktrees and branches and keep its log, for `show`, `logs` and `verify`. What no branch of\n"
        "yours has is saved first (`holdfast salvage`).",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    print_retired(run_id, "archived", asyncio.run(archive(home, run_id)), as_json=options.json)
    return OK
