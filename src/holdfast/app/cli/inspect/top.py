"""`holdfast top`: the dashboard; runs that need you come first."""

import json
import os
import sys
from collections.abc import Sequence

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.listing import all_runs
from holdfast.app.text.screen import terminal_width, warn
from holdfast.app.text.spans import paint_rows
from holdfast.app.tui.attention import ATTENTION_KEYS, attention_of, needs_person, sort_by_attention
from holdfast.app.tui.run_list import choose_columns, heading_row, run_row
from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun
from holdfast.leaf.clock import now
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast top                                    ? shows the keys; q quits, the runs continue
  holdfast top | head -3                          print the list once, without a terminal
  holdfast top --json | jq 'select(.needs_you)'   runs that need you"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "top",
        "Show all runs live: what each does and what it needs from you, with keys to attach, approve, deny, resume,\n"
        "stop and send. With --json, or without a terminal, print the list once. Runs that need you come first.",
        _EXAMPLES,
    )
    options = parser.parse_args(arguments)
    if options.json or not _has_terminal():
        _print(sort_by_attention(all_runs(Home())), as_json=options.json)
        return EXIT_OK
    from holdfast.app.tui.dashboard import Dashboard

    dashboard = Dashboard(Home())
    dashboard.run()
    if dashboard.defect is not None:
        raise dashboard.defect
    return EXIT_OK


def _has_terminal() -> bool:
    terminals = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in terminals) and os.environ.get("TERM") != "dumb"


def _print(runs: Sequence[ListedRun], *, as_json: bool) -> None:
    if as_json:
        for run in runs:
            about = {
                "id": run.id,
                "status": run.status,
                "call": ATTENTION_KEYS[attention_of(run)],
                "needs_you": needs_person(run),
            }
            print(json.dumps({**about, **run.summary._asdict()}, ensure_ascii=False))
        return
    if not runs:
        warn(["no runs yet; create one with: holdfast run GOAL, or try: holdfast demo"])
        return
    columns = choose_columns(runs, moment := now(), terminal_width())
    rows = [run_row(run, moment, columns) for run in runs]
    print("\n".join(paint_rows([heading_row(columns), *rows])))
