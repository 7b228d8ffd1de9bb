"""`holdfast selftest`: test what runs depend on, on this disk."""

import argparse
import json
import os
import textwrap
import time

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.progress import ProgressLine
from holdfast.app.text.screen import paint, pluralize, printable, terminal_width
from holdfast.core.config import durations
from holdfast.engine.commands.selftest.base import SelftestVerdict
from holdfast.engine.commands.selftest.selftest import SelftestResult, repository_at, run_selftest
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_OK, BadInput, HoldfastError

_EXAMPLES = """\
  holdfast selftest                  HOLDFAST_HOME, and the current repository if it is on another disk
  holdfast selftest --at /mnt/big    is it suitable as HOLDFAST_HOME?
  holdfast selftest --quick          kill one run instead of three
  holdfast selftest --time 10m       for a slow or busy machine"""

_COLOURS = {SelftestVerdict.HOLDS: "green", SelftestVerdict.DOUBT: "yellow", SelftestVerdict.FAILS: "red"}
_NAME_COLUMNS = 11
_INDENT = " " * (5 + 2 + _NAME_COLUMNS + 2)


def run(arguments: list[str]) -> int:
    parser = Parser(
        "selftest",
        "Test what runs depend on: syncs, locks, renames, processes, git, and whole runs with scripted agents that\n"
        "are killed at named points and resumed. Takes less than a minute on most machines and leaves nothing behind.\n"
        "Exit code 1 if a check fails, or if the resume check does not finish. Any other check without a result\n"
        "counts as a doubt, not as a failure.",
        _EXAMPLES,
    )
    parser.add_argument("--at", metavar="PATH", help="test this folder instead of HOLDFAST_HOME")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument(
        "--time",
        type=_parse_duration,
        metavar="SPAN",
        help="time limit for all checks: 90s, 10m (default: 50s, more if processes and syncs are slow)",
    )
    options = parser.parse_args(arguments)
    folder = os.path.abspath(options.at) if options.at is not None else Home().path
    if options.at is not None and not os.path.isdir(folder):
        raise BadInput(f"{folder} is not an existing folder")
    started = time.monotonic()
    results: list[SelftestResult] = []
    progress = ProgressLine()
    repository = repository_at(os.getcwd())
    for result in run_selftest(folder, repository, quick=options.quick, report=progress.show, seconds=options.time):
        progress.clear()
        _print(result, results[-1].place if results else None, as_json=options.json)
        results.append(result)
    progress.clear()
    if not options.json:
        print(f"\n{_summary_line(results)} ({time.monotonic() - started:.0f} s)")
    return HoldfastError.exit_code if any(result.has_failed or result.is_unproven for result in results) else EXIT_OK


def _parse_duration(text: str) -> float:
    try:
        return float(text) if text.isdecimal() else durations.parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _print(result: SelftestResult, previous_place: str | None, *, as_json: bool) -> None:
    verdict, measured, advice = result.finding
    if as_json:
        fields = {"check": result.name, "at": result.place, "verdict": verdict.value}
        print(json.dumps({**fields, "measured": measured, "advice": advice}, ensure_ascii=False), flush=True)
        return
    if result.place != previous_place:
        print(f"{'' if previous_place is None else chr(10)}{paint(printable(result.place), 'bold')}")
    print(
        f"{paint(f'{verdict.value:5}', _COLOURS[verdict])}  {result.name:{_NAME_COLUMNS}}  {_wrap(measured)}",
        flush=True,
    )
    if advice is not None:
        print(f"{_INDENT}{paint('→', 'cyan')} {_wrap(advice)}", flush=True)


def _wrap(text: str) -> str:
    width = max(30, min(terminal_width(), 100) - len(_INDENT) - 2)
    return f"\n{_INDENT}".join(textwrap.wrap(printable(text), width, break_on_hyphens=False))


def _summary_line(results: list[SelftestResult]) -> str:
    failing = [result.name for result in results if result.has_failed]
    unproven = [result for result in results if result.is_unproven]
    if failing:
        return paint(f"Failed: {', '.join(failing)}.", "red")
    if unproven:
        name, _, finding = unproven[0]
        return (
            f"{paint(f'No result: {name}.', 'red')} {printable(finding.measured)}; {printable(finding.advice or '')}."
        )
    doubted = [result.name for result in results if result.finding.verdict is SelftestVerdict.DOUBT]
    doubts = f" In doubt: {', '.join(doubted)}." if doubted else ""
    passed = pluralize(len(results) - len(doubted), "check")
    return f"{paint(f'Passed: {passed}.', 'green')}{doubts}"
