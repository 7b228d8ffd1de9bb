"""`holdfast pr`: open a pull request for a run, once."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.published import warn_uncommitted
from holdfast.app.text.screen import printable
from holdfast.engine.commands.publish import PullRequestOptions, open_pull_request_for_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast pr auth-system --draft
  holdfast pr auth-system --title "OAuth login" --base develop"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "pr",
        "Push a run's branch and open a pull request with gh. Without gh, print the page where you can open it.\n"
        "Called again, it finds the existing pull request.",
        _EXAMPLES,
    )
    add_run(parser, "the newest finished one of this repository")
    parser.add_argument("--remote", metavar="NAME", help="the remote, if there are several (default: origin)")
    parser.add_argument(
        "--base", metavar="BRANCH", help="the branch to merge into (default: the one that the run started from)"
    )
    parser.add_argument("--title", help="the title (default: the first line of the goal)")
    parser.add_argument("--body", help="the body (default: the goal)")
    parser.add_argument("--draft", action="store_true", help="open it as a draft")
    options = parser.parse_args(arguments)
    home = Home()
    pull_request_options = PullRequestOptions(options.base, options.title, options.body, options.draft)
    result = asyncio.run(
        open_pull_request_for_run(home, find_run(home, options.run, "done"), options.remote, pull_request_options)
    )
    warn_uncommitted(result.pushed)
    if options.json:
        print(json.dumps({**result._asdict(), "pushed": result.pushed._asdict()}, ensure_ascii=False))
        return EXIT_OK
    if not result.opened:
        sys.stderr.write("pushed; open the pull request on this page:\n")
    print(printable(result.url))
    return EXIT_OK
