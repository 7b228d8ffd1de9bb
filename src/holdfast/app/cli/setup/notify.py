"""`holdfast notify`: try where notifications go, and see what is not delivered."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.screen import format_time, pluralize, printable
from holdfast.engine.commands.notify import Sent, Undelivered, send_digest, send_test, undelivered
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, HoldfastError

_EXAMPLES = """\
  holdfast notify test             send a test to every target of your config
  holdfast notify test phone       to one of them
  holdfast notify digest           what happened in the last 24 hours, now
  holdfast notify status           what is not delivered yet, and why"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "notify",
        "Try the targets of notifications (docs/unattended.md), and see what is not delivered. Runs send by\n"
        "themselves; `holdfast watch` and `holdfast serve` send what their ends left.",
        _EXAMPLES,
    )
    parser.add_argument("what", choices=("test", "digest", "status"), help="what to do; default: status", nargs="?")
    parser.add_argument("target", type=utf8_text, nargs="?", help="the name of a target; default: all")
    options = parser.parse_args(arguments)
    home = Home()
    if options.what in (None, "status"):
        _show(undelivered(home), as_json=options.json)
        return EXIT_OK
    send = send_test if options.what == "test" else send_digest
    sent = asyncio.run(send(home, options.target))
    _show_sent(sent, as_json=options.json)
    return HoldfastError.exit_code if any(each.problem is not None for each in sent) else EXIT_OK


def _show_sent(sent: list[Sent], *, as_json: bool) -> None:
    for each in sent:
        if as_json:
            print(json.dumps(each._asdict()))
        elif each.problem is None:
            print(f"{printable(each.target)}: delivered")
        else:
            sys.stderr.write(f"{printable(each.target)}: not delivered: {printable(each.problem)}\n")


def _show(found: Undelivered, *, as_json: bool) -> None:
    if as_json:
        waiting = [each._asdict() for each in found.waiting]
        print(json.dumps({"waiting": waiting, "given_up": found.given_up, "problems": found.problems}))
        return
    for each in found.waiting:
        about = f"{each.run or 'all runs'} → {each.target}: {each.title}"
        tried = "held back in quiet hours" if each.held else f"tried {pluralize(each.attempts, 'time')}"
        why = f", {each.problem}" if each.problem else ""
        print(printable(f"{about} ({tried}{why}; next at {format_time(each.next_at)} UTC)"))
    if found.given_up:
        print(f"{found.given_up} given up")
    if not found.waiting and not found.given_up:
        print("everything is delivered")
    for where, problem in found.problems.items():
        sys.stderr.write(printable(f"{where}: {problem}") + "\n")
