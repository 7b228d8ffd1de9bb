"""`holdfast push`: push a run's branch to a remote."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.published import print_published
from holdfast.engine.commands.publish import push_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast push auth-system
  holdfast push auth-system --remote fork"""


def run(arguments: list[str]) -> int:
    parser = Parser("push", "Push a run's branch, under its own name, never by force.", _EXAMPLES)
    add_run(parser, "the newest finished one of this repository")
    parser.add_argument("--remote", metavar="NAME", help="the remote, if there are several (default: origin)")
    options = parser.parse_args(arguments)
    home = Home()
    published = asyncio.run(push_run(home, find_run(home, options.run, "done"), options.remote))
    print_published("pushed to", published, as_json=options.json)
    return EXIT_OK
