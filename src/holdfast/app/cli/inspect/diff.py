"""`holdfast diff`: show what a run changed."""

import asyncio
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.diff import print_comparison
from holdfast.engine.home import Home
from holdfast.engine.queries.diff import compare_run
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast diff auth-system                    everything that the run changed so far, committed or not
  holdfast diff auth-system T-003 --stat       one of its tasks, one line per file
  holdfast diff auth-system --from turn-3      since a snapshot
  holdfast diff auth-system | git apply        apply it without a merge"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "diff",
        "Show what a run, or one of its tasks, changed since it started, including uncommitted files. It changes\n"
        "nothing, and also works during the run.",
        _EXAMPLES,
    )
    add_run(parser)
    parser.add_argument("task", metavar="TASK", nargs="?", help="a task's id (default: the run's own branch)")
    parser.add_argument("--stat", action="store_true", help="one line per file instead of the patch")
    parser.add_argument("--from", dest="since", metavar="NAME", help="a snapshot, branch or commit to compare with")
    parser.add_argument(
        "--to", dest="until", metavar="NAME", help="a snapshot, branch or commit (default: the current state)"
    )
    options = parser.parse_args(arguments)
    home = Home()
    run_id = find_run(home, options.run)
    comparison = asyncio.run(compare_run(home, run_id, options.task, since=options.since, until=options.until))
    if not comparison.files:
        sys.stderr.write("nothing changed\n")
    print_comparison(comparison, stat=options.stat, as_json=options.json)
    return EXIT_OK
