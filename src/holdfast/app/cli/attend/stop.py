"""`holdfast stop`: ask a run to end its session, and wait until it has."""

import asyncio
import json

from holdfast.app.cli.arguments import Parser
from holdfast.engine.commands.stop import STOP_TIMEOUT_S, stop_run
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast stop auth-system
  holdfast stop auth-system --timeout 10"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "stop", "Ask a run to stop cleanly, and wait until it has. `holdfast resume` continues it.", _EXAMPLES
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument(
        "--timeout", type=float, default=STOP_TIMEOUT_S, metavar="SECONDS", help="how long to wait (default: 60)"
    )
    options = parser.parse_args(arguments)
    home = Home()
    run_id = home.find_run(options.run)
    asyncio.run(stop_run(home, run_id, options.timeout))
    print(
        json.dumps({"run": run_id, "stopped": True})
        if options.json
        else f"stopped; continue with: holdfast resume {run_id}"
    )
    return EXIT_OK
