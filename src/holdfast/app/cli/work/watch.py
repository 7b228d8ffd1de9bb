"""`holdfast watch`: resume unattended runs after a crash or a reboot, and start that at boot."""

import asyncio
import json
import signal
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.unit import add_unit_options, install, uninstall
from holdfast.app.text.screen import printable
from holdfast.engine.commands.supervise import ReportRun, supervise_home
from holdfast.engine.commands.user_unit import UserUnit
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED

UNIT = UserUnit("watch", "resume interrupted runs")
_EXAMPLES = """\
  holdfast watch                 until Ctrl-C
  holdfast watch --install       start it at boot, to resume runs after a power cut
  holdfast watch --json >> watch.jsonl"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "watch",
        "Resume interrupted runs, with a back-off (settings: `holdfast config resume`). A run that keeps dying\n"
        "without progress is parked, with the reason. A run that you stopped stays stopped. Runs that ended shrink as\n"
        "the retention settings say (`holdfast prune --dry-run`).",
        _EXAMPLES,
    )
    add_unit_options(parser)
    options = parser.parse_args(arguments)
    if options.install:
        return install(Home(), UNIT, as_json=options.json)
    if options.uninstall:
        return uninstall(UNIT, as_json=options.json)

    def report(run_id: str, text: str) -> None:
        if options.json:
            print(json.dumps({"run": run_id, "told": text}), flush=True)
        else:
            sys.stderr.write(f"{run_id}: {printable(text)}\n")
            sys.stderr.flush()

    asyncio.run(_supervise_until_signal(Home(), report))
    return EXIT_INTERRUPTED


async def _supervise_until_signal(home: Home, report: ReportRun) -> None:
    def waits(pid: int | None) -> None:
        sys.stderr.write(f"pid {pid or 'unknown'} resumes runs already; this one takes over when that ends\n")
        sys.stderr.flush()

    supervision = asyncio.ensure_future(supervise_home(home, report, waits, lambda: None))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, supervision.cancel)
    try:
        await supervision
    except asyncio.CancelledError:
        return
