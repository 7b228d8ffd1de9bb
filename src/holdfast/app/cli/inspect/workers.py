"""`holdfast workers`: the workers of the cluster, and what each runs."""

import asyncio
import json
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.text.screen import printable
from holdfast.engine.home import Home
from holdfast.engine.queries.placement import SILENT_AFTER_S, list_workers
from holdfast.leaf.errors import EXIT_OK

_EXAMPLES = """\
  holdfast workers
  holdfast workers --json           one object a line, with the runs of each"""


def run(arguments: list[str]) -> int:
    parser = Parser("workers", "List the workers of the cluster with their slots, labels and runs.", _EXAMPLES)
    options = parser.parse_args(arguments)
    rows = asyncio.run(list_workers(Home()))
    if options.json:
        for row in rows:
            print(json.dumps({**row._asdict(), "state": _state(row.seen_s, is_draining=row.is_draining)}))
        return EXIT_OK
    if not rows:
        sys.stderr.write("no worker; start one with: holdfast worker --engine temporal://HOST:7233\n")
        return EXIT_OK
    table = [("WORKER", "STATE", "SLOTS", "LABELS", "VERSION", "HOST", "RUNS")]
    for row in rows:
        state = _state(row.seen_s, is_draining=row.is_draining)
        slots = f"{len(row.runs)}/{row.slots}"
        labels, runs = " ".join(row.labels) or "-", " ".join(row.runs) or "-"
        table.append((row.name, state, slots, labels, row.version, row.host, runs))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        cells = (printable(cell).ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    return EXIT_OK


def _state(seen_s: float, *, is_draining: bool) -> str:
    if seen_s > SILENT_AFTER_S:
        return f"silent {seen_s:.0f}s"
    return "draining" if is_draining else "ready"
