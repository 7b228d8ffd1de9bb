"""`holdfast watch`: unattended runs are brought back after a crash or a reboot."""

import asyncio
import json
import signal
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import plain
from holdfast.engine.commands.supervise import Say, keep_alive
from holdfast.engine.places import default_home
from holdfast.leaf.errors import INTERRUPTED

_EXAMPLES = """\
  holdfast watch                 until Ctrl-C; start it at boot to have runs back after a power cut
  holdfast watch --json >> kept.jsonl"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "watch",
        "Bring back runs that were cut off, each with a back-off, as `holdfast config resume` says. One that dies\n"
        "again and again without getting further is parked, with its reason. A run that was stopped stays stopped.",
        _EXAMPLES,
    )
    options = parser.parse_args(arguments)

    def say(run_id: str, words: str) -> None:
        if options.json:
            print(json.dumps({"run": run_id, "told": words}), flush=True)
        else:
            sys.stderr.write(f"{run_id}: {plain(words)}\n")
            sys.stderr.flush()

    asyncio.run(_until_stopped(default_home(), say))
    return INTERRUPTED


async def _until_stopped(home: str, say: Say) -> None:
    keeping = asyncio.ensure_future(keep_alive(home, say))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, keeping.cancel)
    try:
        await keeping
    except asyncio.CancelledError:
        return
