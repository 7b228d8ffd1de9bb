"""`holdfast merge`: a run's work into a branch of yours."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.published import print_published
from holdfast.engine.commands.publish import merge_run
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast merge auth-system                 into the branch that the run began from
  holdfast merge auth-system --into release"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "merge",
        "Merge a run's branch into one of yours; forward where that is all it takes. Conflicts leave everything as it\n"
        "was. Where the branch is checked out its files move with it: a file that you changed is never overwritten,\n"
        "and an untracked file that is the same as the run's is no obstacle. Two merges at once take turns.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("--into", metavar="BRANCH", help="another branch than the one the run began from")
    options = parser.parse_args(arguments)
    home = default_home()
    published = asyncio.run(merge_run(home, find_run(home, options.run), options.into))
    print_published("merged into", published, as_json=options.json)
    return OK
