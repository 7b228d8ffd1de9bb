"""`holdfast fork`: a new run with the past of another."""

import asyncio
import json
import sys

import msgspec

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.screen import printable
from holdfast.core.work.names import short_point_name
from holdfast.engine.commands.fork import fork_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast fork auth-system                              from its newest point
  holdfast fork auth-system --at turn-3 --name second    from where turn 3 ended"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "fork",
        "Create a run with the past of another, up to a point: its conversation, its plan, its files and branches.\n"
        "The two share nothing that can change; either can be reset without harm to the other. The fork is not\n"
        "started. `holdfast show RUN --points` lists the points.",
        _EXAMPLES,
    )
    add_run(parser)
    parser.add_argument(
        "--at", metavar="POINT", help="a checkpoint, a turn, an event (SESSION:NUMBER), or -N turns back"
    )
    parser.add_argument("--name", type=utf8_text, metavar="SLUG", help="the name of the new run")
    options = parser.parse_args(_with_joined_value(arguments))
    home = Home()
    fork = asyncio.run(fork_run(home, find_run(home, options.run), options.at, options.name))
    if options.json:
        print(json.dumps({"run": fork.run_id, **msgspec.to_builtins(fork)}, ensure_ascii=False))
        return EXIT_OK
    print(printable(fork.run_id))
    sys.stderr.write(
        f"forked from {printable(fork.parent)} at {printable(short_point_name(fork.point))}; "
        f"continue it with: holdfast resume {printable(fork.run_id)}\n"
    )
    return EXIT_OK


def _with_joined_value(arguments: list[str]) -> list[str]:
    """Join `--at -2` into one argument, so that `-2` is not taken for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--at":
            joined[-1] = f"--at={argument}"
        else:
            joined.append(argument)
    return joined
