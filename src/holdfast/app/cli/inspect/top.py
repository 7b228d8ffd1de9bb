"""`holdfast top`: all runs on one screen, those that need you first, with keys for what they need."""

import json
import os
import sys
from collections.abc import Sequence

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import terminal_width, warn
from holdfast.app.text.spans import painted
from holdfast.app.tui.attention import call_of, ordered, wants_you
from holdfast.app.tui.run_list import columns_for, heading, run_row
from holdfast.engine.places import default_home
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.leaf.clock import now
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast top                                    ? shows the keys; q leaves, and the runs go on
  holdfast top | head -3                          once, as it is now, where there is no terminal
  holdfast top --json | jq 'select(.needs_you)'   what waits for me?"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "top",
        "Every run, what it does and what it needs of you, as it moves; keys to attach, approve, deny, resume, stop\n"
        "and send. With --json, or where stdout is no terminal, the list is printed once: those that need you first.",
        _EXAMPLES,
    )
    options = parser.parse_args(arguments)
    if options.json or not _can_show():
        _print(ordered(list_runs(default_home())), as_json=options.json)
        return OK
    from holdfast.app.tui.dashboard import Board

    board = Board(default_home())
    board.run()
    if board.defect is not None:
        raise board.defect
    return OK


def _can_show() -> bool:
    terminals = (sys.stdin, sys.stdout, sys.stderr)
    return all(one is not None and one.isatty() for one in terminals) and os.environ.get("TERM") != "dumb"


def _print(runs: Sequence[ListedRun], *, as_json: bool) -> None:
    if as_json:
        for run in runs:
            about = {"id": run.id, "status": run.status, "call": call_of(run).name.lower(), "needs_you": wants_you(run)}
            print(json.dumps({**about, **run.summary._asdict()}, ensure_ascii=False))
        return
    if not runs:
        warn(["no runs yet; `holdfast demo` makes one to look at"])
        return
    columns = columns_for(runs, moment := now(), terminal_width())
    rows = [run_row(run, moment, columns) for run in runs]
    print("\n".join(painted([heading(columns), *rows])))
