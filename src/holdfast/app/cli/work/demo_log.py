"""`holdfast demo log`: a log that is written while its writers are killed."""

import asyncio
import json

from holdfast.app.text.resume_report import report
from holdfast.app.text.screen import paint, program
from holdfast.engine.demo import log as demonstration
from holdfast.engine.demo.log import INTERRUPTED_LOG
from holdfast.engine.queries.logs import analyze_log
from holdfast.engine.queries.verify import verify_run
from holdfast.leaf.errors import OK, HoldfastError


def show(home: str, *, quiet: bool, as_json: bool) -> int:
    """Read an interrupted log as the Resume Protocol does, kill writers, tear the log's end, and open it again."""
    tell = _silent if quiet or as_json else print
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
    if as_json:
        print(json.dumps({"run": run_id, "acknowledged": acknowledged, "lost": lost, "whole": verdict_.whole}))
    else:
        told = f"{acknowledged} events acknowledged, {lost} lost, log {'whole' if verdict_.whole else 'DAMAGED'}"
        print(f"  {paint(told, 'green' if whole else 'red')}" if not quiet else f"{run_id}: {told}")
    tell(_next_steps(run_id))
    return OK if whole else HoldfastError.exit_code


def _title(number: int, text: str) -> str:
    return paint(f"\n{number}. {text}\n", "bold")


def _next_steps(run_id: str) -> str:
    name = program()
    return (
        f"\nLook around:\n"
        f"  {name} ls\n"
        f"  {name} show {run_id}\n"
        f"  {name} logs {run_id} --type 'session.*' --type 'log.*'\n"
        f"  {name} verify {run_id}"
    )


def _silent(_: str) -> None:
    pass
