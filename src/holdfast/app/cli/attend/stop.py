"""`holdfast stop`: ask a run to end its session, and wait until it has."""

import argparse
import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable
from holdfast.engine.commands.stop import STOP_TIMEOUT_S, stop_all_runs, stop_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, NothingToDo, TimedOut

_EXAMPLES = """\
  holdfast stop auth-system
  holdfast stop auth-system --timeout 10
  holdfast stop --all"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "stop", "Ask a run to stop cleanly, and wait until it has. `holdfast resume` continues it.", _EXAMPLES
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument("--all", action="store_true", help="stop every run that this machine works on")
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="with --all, and a database that machines share: also the runs of other users and machines",
    )
    parser.add_argument(
        "--timeout", type=float, default=STOP_TIMEOUT_S, metavar="SECONDS", help="how long to wait (default: 60)"
    )
    options = parser.parse_args(arguments)
    home = Home()
    if options.all == (options.run is not None):
        parser.error("name a run, or all that are at work: holdfast stop RUN, or holdfast stop --all")
    if options.everywhere and not options.all:
        parser.error("--everywhere is for all runs: holdfast stop --all --everywhere")
    if options.all:
        return _stop_all(home, options)
    run_id = home.find_run(options.run)
    asyncio.run(stop_run(home, run_id, options.timeout))
    print(
        json.dumps({"run": run_id, "stopped": True})
        if options.json
        else f"stopped; continue with: holdfast resume {run_id}"
    )
    return EXIT_OK


def _stop_all(home: Home, options: argparse.Namespace) -> int:
    stopped = asyncio.run(stop_all_runs(home, options.timeout, everywhere=options.everywhere))
    for run_id, problem in stopped.problems.items():
        if options.json:
            print(json.dumps({"run": run_id, "stopped": problem is None, "problem": problem}))
        elif problem is None:
            print(f"{run_id} stopped; continue with: holdfast resume {run_id}")
        else:
            sys.stderr.write(f"{printable(problem)}\n")
    for run_id, host in stopped.elsewhere.items():
        if options.json:
            print(json.dumps({"run": run_id, "stopped": False, "host": host}))
        else:
            text = f"{run_id} continues: {host} works on it. Stop it with: holdfast stop {run_id}"
            sys.stderr.write(f"{printable(text)}\n")
    if stopped.elsewhere and not options.json:
        sys.stderr.write("Stop the runs of all machines with: holdfast stop --all --everywhere\n")
    if not stopped.problems:
        where = " on this machine" if stopped.elsewhere else ""
        raise NothingToDo(f"no run is at work{where}; list the runs with: holdfast ls")
    return EXIT_OK if all(problem is None for problem in stopped.problems.values()) else TimedOut.exit_code
