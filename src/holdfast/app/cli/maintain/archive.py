"""`holdfast archive`: delete a run's worktrees and branches, keep its log."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.salvaged import print_removed
from holdfast.engine.commands.archive import archive
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast archive auth-system
  holdfast archive auth-system --json | jq -r '.salvaged[]'    print what was saved"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "archive",
        "Delete a run's worktrees and branches, and keep its log for `show`, `logs` and `verify`. Work that is in no\n"
        "branch of yours is saved first (`holdfast salvage`).",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    options = parser.parse_args(arguments)
    home = Home()
    run_id = home.find_run(options.run)
    print_removed(run_id, "archived", asyncio.run(archive(home, run_id)), as_json=options.json)
    return EXIT_OK
