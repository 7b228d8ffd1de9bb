"""`holdfast merge`: merge a run's work into one of your branches."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.published import print_published
from holdfast.engine.commands.publish import merge_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast merge auth-system                 into the branch that the run started from
  holdfast merge auth-system --into release"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "merge",
        "Merge a run's branch into one of yours, by fast-forward if possible. On conflicts nothing changes. If your\n"
        "branch is checked out, its files are updated too. A file that you changed is never overwritten; an untracked\n"
        "file with the same content as the run's is accepted. Two merges at once take turns.",
        _EXAMPLES,
    )
    add_run(parser, "the newest finished one of this repository")
    parser.add_argument("--into", metavar="BRANCH", help="the target (default: the branch that the run started from)")
    options = parser.parse_args(arguments)
    home = Home()
    published = asyncio.run(merge_run(home, find_run(home, options.run, "done"), options.into))
    print_published("merged into", published, as_json=options.json)
    return EXIT_OK
