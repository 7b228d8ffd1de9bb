"""`holdfast diff`: what a run changed."""

import asyncio
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.diff import print_comparison
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.queries.diff import changes_of
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast diff auth-system                    all that the run changed so far, committed or not
  holdfast diff auth-system T-003 --stat       one task of it, a line a file
  holdfast diff auth-system --from turn-3      since a snapshot
  holdfast diff auth-system | git apply        take it, without merging anything"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "diff",
        "What a run, or one task of it, changed since it began. Files that are in no commit yet are part of it.\n"
        "Changes nothing, and works while the run is at work.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("task", metavar="TASK", nargs="?", help="a task's id; without it, the run's own branch")
    parser.add_argument("--stat", action="store_true", help="a line a file instead of the changes themselves")
    parser.add_argument("--from", dest="since", metavar="NAME", help="a snapshot, branch or commit to compare with")
    parser.add_argument("--to", dest="until", metavar="NAME", help="a snapshot, branch or commit, instead of what is")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    comparison = asyncio.run(changes_of(home, run_id, options.task, since=options.since, until=options.until))
    if not comparison.files:
        sys.stderr.write("nothing changed\n")
    print_comparison(comparison, stat=options.stat, as_json=options.json)
    return OK
