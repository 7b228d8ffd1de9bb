"""`holdfast preferences`: what agents propose for later runs, for you to accept or to refuse."""

import asyncio
import json
import os
import sys

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import paint, plain
from holdfast.engine.commands.preferences import Places, Preference, Said, accept, preferences, refuse
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast preferences ls                      what is proposed, and nobody has said anything to
  holdfast preferences ls auth-system --all    of one run; also what was accepted or refused
  holdfast preferences accept 3fa2c1 90bd      told to that role in every later run
  holdfast preferences accept 3fa2c1 --here    in those of this repository: .holdfast/preferences/ROLE.md
  holdfast preferences refuse 77e0             not told, and not proposed again"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "preferences",
        "Agents may propose what their role should hold to in later runs. It is kept, and nobody is told before you\n"
        "accept it.",
        _EXAMPLES,
    )
    parser.add_argument("action", choices=("ls", "accept", "refuse"), metavar="ls|accept|refuse")
    parser.add_argument("names", nargs="*", metavar="ID|RUN", help="accept, refuse: which; ls: of which run")
    parser.add_argument("--all", action="store_true", help="ls: also those that were accepted or refused")
    parser.add_argument("--here", action="store_true", help="accept: for this repository, not for all of yours")
    options = parser.parse_intermixed_args(arguments)  # `ls --all RUN` as well as `ls RUN --all`
    places = Places(default_home(), os.getcwd())
    if options.action == "ls":
        if len(options.names) > 1:
            parser.error("ls is of one run, or of all")
        found = asyncio.run(preferences(places, *options.names))
        _print([one for one in found if options.all or one.said is Said.PROPOSED], as_json=options.json)
        return OK
    if not options.names:
        parser.error(f"{options.action} which? `holdfast preferences ls` lists what is proposed")
    if options.action == "accept":
        decided = asyncio.run(accept(places, options.names, here=options.here))
    else:
        decided = asyncio.run(refuse(places, options.names))
    _print(decided, as_json=options.json)
    return OK


def _print(found: list[Preference], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            print(json.dumps(msgspec.to_builtins(one), ensure_ascii=False))
        return
    if not found:
        sys.stderr.write("nothing is proposed\n")
    for one in found:
        said = "" if one.said is Said.PROPOSED else f"  {one.said}{f': {plain(one.file)}' if one.file else ''}"
        print(f"{one.id}  {plain(one.role):18} {plain(one.text)}{paint(said, 'dim') if said else ''}")
