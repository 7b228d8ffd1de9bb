"""`holdfast demo log`: a log whose writers are killed."""

import asyncio
import json

from holdfast.app.text.resume_report import format_report
from holdfast.app.text.screen import paint, program_name
from holdfast.engine.commands.demo import log as log_demo
from holdfast.engine.commands.demo.log import INTERRUPTED_LOG
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import analyze_log
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.errors import EXIT_OK, HoldfastError


def run_log_demo(home: Home, *, quiet: bool, as_json: bool) -> int:
    """Analyze an interrupted log, kill writers, tear the end of the log, and open it again."""
    output = _discard if quiet or as_json else print
    output(_title(1, "The log of an interrupted session"))
    output(format_report(asyncio.run(analyze_log(INTERRUPTED_LOG))))

    output(_title(2, "Four writers of one log, each killed with kill -9"))
    run_id = asyncio.run(log_demo.create_log_run(home))
    acknowledged = lost = 0
    for kill in log_demo.kill_writers(home, run_id):
        acknowledged, lost = acknowledged + kill.acknowledged, lost + kill.lost
        loss = paint("none lost", "green") if not kill.lost else paint(f"{kill.lost} LOST", "red")
        output(f"  pid {kill.pid:<7} killed after {kill.acknowledged:>4} acknowledged events; {loss}")

    output(_title(3, "A torn write, as a power cut leaves it"))
    output(f"  {log_demo.tear_log_end(home, run_id)} bytes of half a line appended to the log")
    repaired = log_demo.resume_log_run(home, run_id)
    output(f"  resumed: set the half line aside ({repaired.bytes} bytes, in {repaired.kept_as})")

    output(_title(4, "The proof"))
    verification = asyncio.run(verify_run(home, run_id))
    whole = verification.is_intact and not lost
    output(f"  {verification.events} events in {verification.sessions} sessions, hash chain {verification.chain}")
    if as_json:
        print(json.dumps({"run": run_id, "acknowledged": acknowledged, "lost": lost, "whole": verification.is_intact}))
    else:
        result = (
            f"{acknowledged} events acknowledged, {lost} lost, log {'intact' if verification.is_intact else 'DAMAGED'}"
        )
        print(f"  {paint(result, 'green' if whole else 'red')}" if not quiet else f"{run_id}: {result}")
    output(_next_steps(run_id))
    return EXIT_OK if whole else HoldfastError.exit_code


def _title(number: int, text: str) -> str:
    return paint(f"\n{number}. {text}\n", "bold")


def _next_steps(run_id: str) -> str:
    name = program_name()
    return (
        f"\nLook at the run:\n"
        f"  {name} ls\n"
        f"  {name} show {run_id}\n"
        f"  {name} logs {run_id} --type 'session.*' --type 'log.*'\n"
        f"  {name} verify {run_id}"
    )


def _discard(_: str) -> None:
    pass
