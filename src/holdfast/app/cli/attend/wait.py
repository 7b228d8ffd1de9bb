"""`holdfast wait`: wait until a run's session has ended."""

import asyncio
import json

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.live.run_session import exit_code_for
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_ended
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import TimedOut

_EXAMPLES = """\
  holdfast wait auth-system && holdfast merge auth-system
  holdfast wait auth-system --timeout 3600"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "wait",
        "Wait until a run stops. The exit code says how it ended, as for `run`.",
        _EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="id, start of an id, or slug")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after this time (exit code 3)")
    options = parser.parse_args(arguments)
    home = Home()
    run_id = home.find_run(options.run)
    try:
        asyncio.run(asyncio.wait_for(wait_until_ended(home, run_id), options.timeout))
    except TimeoutError:
        raise TimedOut(f"run {run_id} is still running after {options.timeout:g} s") from None
    status = asyncio.run(view_run(home, run_id)).status
    print(json.dumps({"run": run_id, "status": status}) if options.json else status)
    return exit_code_for(status)
