"""`make bench`: measures Holdfast's performance targets, as ratios, on this machine.

    bench/run.py [--only NAME …] [--quick] [--json]

The table goes to stdout, progress to stderr. A whole run also writes docs/performance.md. The exit code is 1
if a target is missed, so that a regression shows.
"""

import argparse
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = ROOT  # run as a script, the modules beside this one are still `bench.…`

from bench import (  # noqa: E402
    appending,
    cluster,
    conversing,
    database,
    git_cost,
    growth,
    opening,
    overhead,
    page,
    reading,
    repositories,
    rewinding,
    serving,
    starting,
    telemetry,
    working,
)
from bench.figure import Figure  # noqa: E402
from bench.machine import facts  # noqa: E402
from bench.progress import say  # noqa: E402
from bench.report import as_json, as_page, as_table  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "performance.md")
GROUPS = {
    "append": appending.measure,
    "database": database.measure,
    "cluster": cluster.measure,
    "open": opening.measure,
    "rewind": rewinding.measure,
    "start": starting.measure,
    "read": reading.measure,
    "git": repositories.measure,
    "git-task": git_cost.measure,
    "overhead": overhead.measure,
    "conversation": conversing.measure,
    "work": working.measure,
    "growth": growth.measure,
    "page": page.measure,
    "serve": serving.measure,
    "telemetry": telemetry.measure,
}


def main() -> int:
    arguments = _parser().parse_args()
    began = time.monotonic()
    figures: list[Figure] = []
    for name, measure in GROUPS.items():
        if not arguments.only or name in arguments.only:
            say(f"{name} …")
            figures += measure(quick=arguments.quick)
    took = time.monotonic() - began
    print(as_json(figures) if arguments.json else as_table(figures))
    missed = [figure for figure in figures if figure.met is False]
    for figure in missed:
        say(f"missed: {figure.what}: {figure.shown}, target {figure.target_shown}")
    if not arguments.only and not arguments.quick:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(as_page(figures, facts(), took))
        say(f"wrote {os.path.relpath(PAGE)}")
    say(f"took {took:.0f} s")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure Holdfast's performance targets, as ratios.")
    parser.add_argument("--only", action="append", choices=list(GROUPS), metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="few rounds and a tenth of the events")
    parser.add_argument("--json", action="store_true", help="the figures as JSON instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
