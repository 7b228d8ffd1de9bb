"""`holdfast push`: push a run's branch to a remote."""

import asyncio

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.published import print_published
from holdfast.engine.commands.publish import push_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast push auth-system
  holdfast push auth-system --remote fork"""


def run(arguments: list[str]) -> int:
    parser = Parser("push", "Push a run's branch, under its own name, never by force.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument("--remote", metavar="NAME", help="the remote, if there are several (default: origin)")
    options = parser.parse_args(arguments)
    home = Home()
    published = asyncio.run(push_run(home, home.find_run(options.run), options.remote))
    print_published("pushed to", published, as_json=options.json)
    return EXIT_OK
