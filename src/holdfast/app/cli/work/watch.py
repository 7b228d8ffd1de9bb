"""`holdfast watch`: resume unattended runs after a crash or a reboot."""

import asyncio
import json
import signal
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable
from holdfast.engine.commands.supervise import ReportRun, supervise_runs
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED

_EXAMPLES = """\
  holdfast watch                 until Ctrl-C; start it at boot to resume runs after a power cut
  holdfast watch --json >> kept.jsonl"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "watch",
        "Resume interrupted runs, with a back-off (settings: `holdfast config resume`). A run that keeps dying\n"
        "without progress is parked, with the reason. A run that you stopped stays stopped.",
        _EXAMPLES,
    )
    options = parser.parse_args(arguments)

    def report(run_id: str, text: str) -> None:
        if options.json:
            print(json.dumps({"run": run_id, "told": text}), flush=True)
        else:
            sys.stderr.write(f"{run_id}: {printable(text)}\n")
            sys.stderr.flush()

    asyncio.run(_supervise_until_signal(Home(), report))
    return EXIT_INTERRUPTED


async def _supervise_until_signal(home: Home, report: ReportRun) -> None:
    supervision = asyncio.ensure_future(supervise_runs(home, report))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, supervision.cancel)
    try:
        await supervision
    except asyncio.CancelledError:
        return
