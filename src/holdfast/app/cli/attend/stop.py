"""`holdfast stop`: ask a run to end its sitting, and wait until it has."""

import asyncio
import json

from holdfast.app.cli.arguments import Parser
from holdfast.engine.commands.stop import PATIENCE, stopped
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast stop auth-system
  holdfast stop auth-system --timeout 10"""


def run(arguments: list[str]) -> int:
    parser = Parser("stop", "Ask a run to stop cleanly, and wait until it has. `holdfast resume` goes on.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    parser.add_argument("--timeout", type=float, default=PATIENCE, metavar="SECONDS", help="how long to wait (60)")
    options = parser.parse_args(arguments)
    home = default_home()
    run_id = find_run(home, options.run)
    asyncio.run(stopped(home, run_id, options.timeout))
    print(
        json.dumps({"run": run_id, "stopped": True}) if options.json else f"stopped: holdfast resume {run_id} goes on"
    )
    return OK
