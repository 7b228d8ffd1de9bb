"""`holdfast worker`: run the cluster's runs on this machine; `holdfast worker drain` ends one."""

import argparse
import asyncio
import json
import os
import sys
import time

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.screen import printable
from holdfast.engine.commands.cluster.drain import drain_worker
from holdfast.engine.commands.cluster.engine_address import chosen_engine, require_cluster_store
from holdfast.engine.home import Home
from holdfast.engine.queries.placement import list_workers
from holdfast.leaf.errors import EXIT_OK, BadInput, TimedOut

_EXAMPLES = """\
  holdfast worker --engine temporal://temporal.example.org:7233 --slots 3
  holdfast worker --slots 1 --label gpu            also takes runs that need a GPU
  holdfast worker drain box-4f1d5a --wait          hand over what it runs, and end it"""
_WAIT_S = 120.0
_POLL_INTERVAL_S = 0.5


def run(arguments: list[str]) -> int:
    if arguments[:1] == ["drain"]:
        return _drain(arguments[1:])
    parser = Parser(
        "worker",
        "Run runs of the cluster on this machine, until it is drained or gets SIGTERM. HOLDFAST_STORE names the\n"
        "database; its password comes from PGPASSWORD or ~/.pgpass.",
        _EXAMPLES,
    )
    parser.add_argument("--engine", metavar="URL", help="the Temporal server, as temporal://host:7233")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="runs at the same time (default: 2)")
    parser.add_argument(
        "--label", type=utf8_text, action="append", default=[], metavar="L", help="take runs that need this label, too"
    )
    parser.add_argument(
        "--name", type=utf8_text, metavar="NAME", help="the name of this worker (default: from the host)"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=60.0, metavar="N", help="how long sessions may take to end cleanly"
    )
    options = parser.parse_args(arguments)
    if options.slots < 1:
        raise BadInput(f"--slots {options.slots}: a worker needs at least one slot")
    home = Home()
    home.check_writable()
    require_cluster_store(home)
    engine = chosen_engine(home, options.engine)
    from holdfast.engine.commands.cluster.worker import WorkerOptions, run_worker  # loads the Temporal client

    chosen = WorkerOptions(engine, options.slots, tuple(options.label), options.name, options.drain_seconds)
    asyncio.run(run_worker(home, chosen, _report))
    _report("the worker ended")
    sys.stdout.flush()
    os._exit(EXIT_OK)  # the client may abort while Python exits; everything of ours has ended


def _report(message: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {printable(message)}\n")
    sys.stderr.flush()


def _drain(arguments: list[str]) -> int:
    parser = Parser("worker drain", "Ask a worker to take no more runs, hand over those it has, and end.", _EXAMPLES)
    parser.add_argument("name", type=utf8_text, metavar="NAME", help="as `holdfast workers` lists it")
    parser.add_argument("--wait", action="store_true", help="return when it has ended")
    options = parser.parse_args(arguments)
    home = Home()
    was_dead = asyncio.run(drain_worker(home, options.name))
    if options.wait and not was_dead:
        asyncio.run(_wait_until_gone(home, options))
    text = "was dead, and is not listed any more" if was_dead else ("ended" if options.wait else "is draining")
    if options.json:
        print(json.dumps({"worker": options.name, "dead": was_dead}))
    else:
        sys.stderr.write(f"{printable(options.name)} {text}\n")
    return EXIT_OK


async def _wait_until_gone(home: Home, options: argparse.Namespace) -> None:
    deadline = time.monotonic() + _WAIT_S
    while any(row.name == options.name for row in await list_workers(home)):
        if time.monotonic() > deadline:
            raise TimedOut(f"{options.name} is still draining after {_WAIT_S:.0f} s; see: holdfast workers")
        await asyncio.sleep(_POLL_INTERVAL_S)
