"""`holdfast preferences`: accept or refuse what agents propose for later runs."""

import asyncio
import json
import os
import sys

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import paint, printable
from holdfast.engine.commands.preferences import (
    Preference,
    PreferencePaths,
    PreferenceStatus,
    accept_preferences,
    list_preferences,
    refuse_preferences,
)
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast preferences ls                      open proposals
  holdfast preferences ls auth-system --all    of one run, with accepted and refused ones
  holdfast preferences accept 3fa2c1 90bd      add them to the role's prompts in all later runs
  holdfast preferences accept 3fa2c1 --here    only in this repository: .holdfast/preferences/ROLE.md
  holdfast preferences refuse 77e0             never use it, and do not propose it again"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "preferences",
        "Agents can propose preferences for their role in later runs. A proposal has no effect until you accept it.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "accept", "refuse"), metavar="ls|accept|refuse")
    parser.add_argument("names", nargs="*", metavar="ID|RUN", help="accept, refuse: the proposals; ls: the run")
    parser.add_argument("--all", action="store_true", help="ls: also list accepted and refused proposals")
    parser.add_argument("--here", action="store_true", help="accept: only for this repository")
    options = parser.parse_intermixed_args(arguments)  # `ls --all RUN` as well as `ls RUN --all`
    paths = PreferencePaths(Home(), os.getcwd())
    if options.action == "ls":
        if len(options.names) > 1:
            parser.error("ls takes at most one run")
        found = asyncio.run(list_preferences(paths, *options.names))
        _print(
            [preference for preference in found if options.all or preference.said is PreferenceStatus.PROPOSED],
            as_json=options.json,
        )
        return EXIT_OK
    if not options.names:
        parser.error(f"{options.action} needs an ID; list the proposals with: holdfast preferences ls")
    if options.action == "accept":
        decided = asyncio.run(accept_preferences(paths, options.names, in_checkout=options.here))
    else:
        decided = asyncio.run(refuse_preferences(paths, options.names))
    _print(decided, as_json=options.json)
    return EXIT_OK


def _print(items: list[Preference], *, as_json: bool) -> None:
    if as_json:
        for item in items:
            print(json.dumps(msgspec.to_builtins(item), ensure_ascii=False))
        return
    if not items:
        sys.stderr.write("no proposals\n")
    for item in items:
        status = (
            ""
            if item.said is PreferenceStatus.PROPOSED
            else f"  {item.said}{f': {printable(item.file)}' if item.file else ''}"
        )
        print(f"{item.id}  {printable(item.role):18} {printable(item.text)}{paint(status, 'dim') if status else ''}")
