"""`holdfast watch`: resume unattended runs after a crash or a reboot, and start that at boot."""

import asyncio
import json
import signal
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable
from holdfast.engine.commands.supervise import ReportRun, supervise_runs
from holdfast.engine.commands.watch_unit import UNIT, crontab_line, install_unit, is_systemd_running, uninstall_unit
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED

_EXAMPLES = """\
  holdfast watch                 until Ctrl-C
  holdfast watch --install       start it at boot, to resume runs after a power cut
  holdfast watch --json >> watch.jsonl"""
_NEXT_STEPS = """\
wrote {file}

Start it now and at each login:
  {enable}
Start it at boot, without a login:
  {linger}
"""
_UPDATED = """\
Restart one that is running; its runs continue:
  {restart}
"""
_ENVIRONMENT = """
It has your PATH, but no API keys. Write the keys that your agents need, as NAME=value, into
~/.config/environment.d/holdfast.conf before you start it. What it does: journalctl --user -u {unit} -f
"""
_WITHOUT_SYSTEMD = """\
systemd does not run this machine; nothing was written. Add this line with `crontab -e`:

{line}

It has your PATH, but no API keys. Write the keys that your agents need, as NAME=value, above it.
"""
_UNINSTALLED = """\
deleted {file}

Stop it if it is running; its runs continue:
  {stop}
"""
_ENABLE = f"systemctl --user daemon-reload && systemctl --user enable --now {UNIT}"
_LINGER = "loginctl enable-linger"
_RESTART = f"systemctl --user restart {UNIT}"
_STOP = f"systemctl --user stop {UNIT}; systemctl --user daemon-reload"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "watch",
        "Resume interrupted runs, with a back-off (settings: `holdfast config resume`). A run that keeps dying\n"
        "without progress is parked, with the reason. A run that you stopped stays stopped.",
        _EXAMPLES,
    )
    at_boot = parser.add_mutually_exclusive_group()
    at_boot.add_argument("--install", action="store_true", help="write a systemd user unit that starts it at boot")
    at_boot.add_argument("--uninstall", action="store_true", help="delete that unit")
    options = parser.parse_args(arguments)
    if options.install:
        return _install(as_json=options.json)
    if options.uninstall:
        return _uninstall(as_json=options.json)

    def report(run_id: str, text: str) -> None:
        if options.json:
            print(json.dumps({"run": run_id, "told": text}), flush=True)
        else:
            sys.stderr.write(f"{run_id}: {printable(text)}\n")
            sys.stderr.flush()

    asyncio.run(_supervise_until_signal(Home(), report))
    return EXIT_INTERRUPTED


def _install(*, as_json: bool) -> int:
    home = Home()
    if not is_systemd_running():
        line = crontab_line(home)
        print(json.dumps({"crontab": line}) if as_json else _WITHOUT_SYSTEMD.format(line=line).rstrip())
        return 0
    file, was_there = install_unit(home)
    if as_json:
        print(json.dumps({"unit": file, "commands": [_ENABLE, *([_RESTART] if was_there else []), _LINGER]}))
        return 0
    text = _NEXT_STEPS.format(file=printable(file), enable=_ENABLE, linger=_LINGER)
    updated = _UPDATED.format(restart=_RESTART) if was_there else ""
    sys.stdout.write(text + updated + _ENVIRONMENT.format(unit=UNIT))
    return 0


def _uninstall(*, as_json: bool) -> int:
    file = uninstall_unit()
    if as_json:
        print(json.dumps({"unit": file, "commands": [_STOP]}))
    else:
        sys.stdout.write(_UNINSTALLED.format(file=printable(file), stop=_STOP))
    return 0


async def _supervise_until_signal(home: Home, report: ReportRun) -> None:
    supervision = asyncio.ensure_future(supervise_runs(home, report))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, supervision.cancel)
    try:
        await supervision
    except asyncio.CancelledError:
        return
