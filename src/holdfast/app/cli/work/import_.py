"""`holdfast import`: continue a run of another machine here."""

import asyncio
import json
import os
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import pluralize, printable
from holdfast.engine.commands.bundle.import_bundle import import_bundle
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast import auth-system.run                  in a clone of the run's repository
  holdfast import auth-system.run --repo ~/src/app"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "import",
        "Make a run of the file that `holdfast export RUN --bundle FILE` wrote on another machine. `holdfast resume`\n"
        "then continues it here. The log is verified first. Nothing is executed, and nothing of your branches and\n"
        "files changes: the run's own branches are created in the repository. What would run commands of the bundle's\n"
        "maker on this machine needs --trust.",
        _EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", help="the bundle")
    parser.add_argument("--repo", metavar="DIR", help="a clone of the run's repository (default: the current folder)")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="the bundle may bring hooks, agents with arguments, permissions and other settings that run commands",
    )
    options = parser.parse_args(arguments)
    home = Home()
    home.check_writable()
    found = asyncio.run(import_bundle(home, os.path.abspath(options.file), options.repo, trusted=options.trust))
    if options.json:
        print(json.dumps({"run": found.run_id, "repository": found.repository, "events": found.events}))
    else:
        print(found.run_id)
        where = f" into {printable(found.repository)}" if found.repository is not None else ""
        sys.stderr.write(f"imported {pluralize(found.events, 'event')}{where}\n")
        sys.stderr.write(f"continue it with: holdfast resume {found.run_id}\n")
    return EXIT_OK
