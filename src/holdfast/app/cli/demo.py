"""`holdfast demo`: the promise, kept before your eyes."""

import asyncio
import json
import os
import shutil
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.report import report
from holdfast.app.cli.screen import paint
from holdfast.engine import demonstration
from holdfast.engine.demonstration import INTERRUPTED_LOG
from holdfast.engine.places import default_home
from holdfast.engine.service import analyze_log, verify_run
from holdfast.leaf.errors import OK, HoldfastError

_EXAMPLES = """\
  holdfast demo              with the story
  holdfast demo --quiet      the verdict only, for scripts"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "demo",
        "Reads an interrupted log as the Resume Protocol does, then kills writers with SIGKILL in mid-stream,\n"
        "tears the log's end, and opens it again. Leaves a run to look at. Exits 1 if anything was lost.",
        _EXAMPLES,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only the verdict")
    options = parser.parse_args(arguments)
    home = default_home()
    tell = _silent if options.quiet or options.json else print
    tell(_title(1, "An interrupted session, as its log tells it"))
    tell(report(asyncio.run(analyze_log(INTERRUPTED_LOG))))

    tell(_title(2, "kill -9, in mid-stream, four times on one log"))
    run_id = asyncio.run(demonstration.create(home))
    acknowledged = lost = 0
    for kill in demonstration.kill_writers(home, run_id):
        acknowledged, lost = acknowledged + kill.acknowledged, lost + kill.lost
        verdict = paint("none lost", "green") if not kill.lost else paint(f"{kill.lost} LOST", "red")
        tell(f"  pid {kill.pid:<7} killed after {kill.acknowledged:>4} acknowledged events; {verdict}")

    tell(_title(3, "A torn end, as a power cut leaves it"))
    tell(f"  {demonstration.tear(home, run_id)} bytes of half a line written to the end of the log")
    repaired = demonstration.resume(home, run_id)
    tell(f"  resumed: the half line was set aside ({repaired.bytes} bytes, kept in {repaired.kept_as})")

    tell(_title(4, "The proof"))
    verdict_ = asyncio.run(verify_run(home, run_id))
    whole = verdict_.whole and not lost
    tell(f"  {verdict_.events} events in {verdict_.sessions} sessions, hash chain {verdict_.chain}")
    if options.json:
        print(json.dumps({"run": run_id, "acknowledged": acknowledged, "lost": lost, "whole": verdict_.whole}))
    else:
        told = f"{acknowledged} events acknowledged, {lost} lost, log {'whole' if verdict_.whole else 'DAMAGED'}"
        print(f"  {paint(told, 'green' if whole else 'red')}" if not options.quiet else f"{run_id}: {told}")
    tell(_next_steps(run_id))
    return OK if whole else HoldfastError.exit_code


def _title(number: int, text: str) -> str:
    return paint(f"\n{number}. {text}\n", "bold")


def _next_steps(run_id: str) -> str:
    program = _program()
    return (
        f"\nLook around:\n"
        f"  {program} ls\n"
        f"  {program} show {run_id}\n"
        f"  {program} logs {run_id} --type 'session.*' --type 'log.*'\n"
        f"  {program} verify {run_id}"
    )


def _program() -> str:
    """What to type to call this program."""
    if shutil.which("holdfast"):
        return "holdfast"
    called = sys.argv[0]
    return f"{sys.executable} -m holdfast" if os.path.basename(called) == "__main__.py" else os.path.relpath(called)


def _silent(_: str) -> None:
    pass
