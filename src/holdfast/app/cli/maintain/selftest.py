"""`holdfast selftest`: whether what a run rests on holds on this disk."""

import argparse
import json
import os
import sys
import textwrap
import time

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import counted, paint, plain, terminal_width
from holdfast.core.config import durations
from holdfast.engine.places import default_home
from holdfast.engine.selftest.base import Verdict
from holdfast.engine.selftest.selftest import Checked, examine, repository_at
from holdfast.leaf.errors import OK, BadInput, HoldfastError

_EXAMPLES = """\
  holdfast selftest                  where runs are kept, and the repository at hand where that is on another disk
  holdfast selftest --at /mnt/big    would it be a good HOLDFAST_HOME?
  holdfast selftest --quick          one run that is killed, not three
  holdfast selftest --time 10m       on a machine that is slow or busy"""

_COLOURS = {Verdict.HOLDS: "green", Verdict.DOUBT: "yellow", Verdict.FAILS: "red"}
_NAMES = 11  # columns
_INDENT = " " * (5 + 2 + _NAMES + 2)


def run(arguments: list[str]) -> int:
    parser = Parser(
        "selftest",
        "Try on this disk what a run rests on: syncs, locks, renames, processes, git; and whole runs with scripted\n"
        "agents, killed at named points and resumed. Takes less than a minute on most machines, and leaves nothing\n"
        "behind. Exit 1 when something does not hold, or when the resume check did not come to its end. What else\n"
        "cannot be seen from here is a doubt, and no failure.",
        _EXAMPLES,
    )
    parser.add_argument("--at", metavar="PATH", help="this folder instead of HOLDFAST_HOME")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument(
        "--time",
        type=_span,
        metavar="SPAN",
        help="for all checks together: 90s, 10m (default: 50s, more where processes and syncs are slow)",
    )
    options = parser.parse_args(arguments)
    home = os.path.abspath(options.at) if options.at is not None else default_home()
    if options.at is not None and not os.path.isdir(home):
        raise BadInput(f"{home} is no folder; name one that is there")
    begun = time.monotonic()
    found: list[Checked] = []
    progress = _Progress()
    repository = repository_at(os.getcwd())
    for checked in examine(home, repository, quick=options.quick, tell=progress.tell, seconds=options.time):
        progress.clear()
        _print(checked, found[-1].place if found else None, as_json=options.json)
        found.append(checked)
    progress.clear()
    if not options.json:
        print(f"\n{_verdict(found)} ({time.monotonic() - begun:.0f} s)")
    return HoldfastError.exit_code if any(checked.fails or checked.is_unproven for checked in found) else OK


def _span(written: str) -> float:
    try:
        return float(written) if written.isdecimal() else durations.seconds(written)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Progress:
    """What is being done, on one line of a terminal that is wiped again."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def tell(self, what: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K… {what}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _print(checked: Checked, before: str | None, *, as_json: bool) -> None:
    verdict, measured, advice = checked.finding
    if as_json:
        about = {"check": checked.name, "at": checked.place, "verdict": verdict.value}
        print(json.dumps({**about, "measured": measured, "advice": advice}, ensure_ascii=False), flush=True)
        return
    if checked.place != before:
        print(f"{'' if before is None else chr(10)}{paint(plain(checked.place), 'bold')}")
    print(
        f"{paint(f'{verdict.value:5}', _COLOURS[verdict])}  {checked.name:{_NAMES}}  {_wrapped(measured)}", flush=True
    )
    if advice is not None:
        print(f"{_INDENT}{paint('→', 'cyan')} {_wrapped(advice)}", flush=True)


def _wrapped(text: str) -> str:
    width = max(30, min(terminal_width(), 100) - len(_INDENT) - 2)
    return f"\n{_INDENT}".join(textwrap.wrap(plain(text), width, break_on_hyphens=False))


def _verdict(found: list[Checked]) -> str:
    failing = [checked.name for checked in found if checked.fails]
    unproven = [checked for checked in found if checked.is_unproven]
    if failing:
        return paint(f"Does not hold here: {', '.join(failing)}.", "red")
    if unproven:
        name, _, finding = unproven[0]
        return f"{paint(f'Not proven here: {name}.', 'red')} {plain(finding.measured)}; {plain(finding.advice or '')}."
    doubted = [checked.name for checked in found if checked.finding.verdict is Verdict.DOUBT]
    also = f" In doubt: {', '.join(doubted)}." if doubted else ""
    held = counted(len(found) - len(doubted), "check")
    return f"{paint(f'It holds here: {held}.', 'green')}{also}"
