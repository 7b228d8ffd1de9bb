"""`holdfast pr`: a run's work as a pull request, once."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.published import warn_uncommitted
from holdfast.app.text.screen import plain
from holdfast.engine.commands.publish import request_pull
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.workspace.publish import Wish
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast pr auth-system --draft
  holdfast pr auth-system --title "OAuth login" --base develop"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "pr",
        "Push a run's branch and open a pull request from it, with gh where it is installed; otherwise the address of\n"
        "the page is printed on which you open it. Called again, it finds the one that is there.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("--remote", metavar="NAME", help="which one, when there are several (origin, unless named)")
    parser.add_argument("--base", metavar="BRANCH", help="the branch to merge into (the one the run began from)")
    parser.add_argument("--title", help="instead of the first line of the goal")
    parser.add_argument("--body", help="instead of the goal")
    parser.add_argument("--draft", action="store_true", help="not ready for review yet")
    options = parser.parse_args(arguments)
    home = default_home()
    wish = Wish(options.base, options.title, options.body, options.draft)
    requested = asyncio.run(request_pull(home, find_run(home, options.run), options.remote, wish))
    warn_uncommitted(requested.pushed)
    if options.json:
        print(json.dumps({**requested._asdict(), "pushed": requested.pushed._asdict()}, ensure_ascii=False))
        return OK
    if not requested.opened:
        sys.stderr.write("pushed; open the pull request on this page:\n")
    print(plain(requested.url))
    return OK
