"""The figures as a table for a terminal, as JSON, and as the page in docs/."""

import dataclasses
import json
from collections.abc import Sequence

from bench.figure import Figure

_HOW = """\
The machine has other work too, and its noise comes in spells, so a time on its own says little. Every figure
marked × is a **ratio**: its two sides take turns in short blocks within the same run of the bench, each round gives
one ratio, and the figure is the **median** of the rounds; the spread is their 10th and 90th percentile.
Where the target is ≥, more is better; where it is ≤, less is. Absolute numbers are for information: they are this
machine's, on this day, under the load named above.

- **Appending** goes through `open_run` and `OwnedRun.append` on the files backend, with the real `fdatasync`,
  stamping, hash chain, fold and snapshots that a run has. The raw side writes the very same bytes to a growing
  `O_APPEND` file on the same disk. The events are a made-up run: tasks in waves, turns, tool calls, two
  thirds of it talk. How these two ratios come out hangs on the disk: what an append costs beyond its sync is
  microseconds of Python, which weigh more the faster the disk syncs, alone and in a group. The 64 producers that
  only encode and hash write lines as long as ours: no journal of this kind gets beyond them.
- **Opening** is a whole `open_run`: lock, repair, snapshot, tail, in a process of its own for each round, timed
  after the imports. The figure with a snapshot is the median of the openings in that process; the first one of
  each process has its own row. The log is in the page cache for all sides. The seed's way is that of the Resume
  Protocol: every line through `json.loads` into a list, then a filter.
- **Memory** is the growth of the process from after its imports to its peak (`VmHWM`). The two logs have as many
  tasks; only the talk is ten times as long.
- **Starting** spawns `.venv/bin/holdfast` and the bare interpreter in turn, output to `/dev/null`, bytecode
  compiled as `make setup` does it, the catalog warm, no `PYTHON…` variable set.
- **Snapshots** are whole: that the folder is ours is checked, and a ref is written and synced. `git status` is
  spawned as directly as can be, its output to `/dev/null`.
- **Worktrees**: a run is opened (lock, repair, fold, fence, settle), its branches and worktrees are compared with
  its log, and its sitting is ended; git processes are counted by git's own trace.
- **Conversing**: each side has a playbook agent of its own, a real process with the same script: it thinks aloud,
  uses a tool, and answers, in 50 updates. Through Holdfast a turn is a durable record of all that, synced before the
  prompt is sent, at each step of the tool, and at the end; the bare client throws away what it hears.
- **A runner at rest** is a process that owns a run and has had one turn with an agent that now waits: `Rss` and `Pss`
  of `/proc/PID/smaps_rollup`, with the engine's modules for work on a repository loaded too.
- **Following**: both processes read the same monotonic clock; the follower looks at it when its line is flushed.
"""


def as_table(figures: Sequence[Figure]) -> str:
    head = ("what", "against", "measured", "p10 – p90", "target", "met")
    rows = [head, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def as_json(figures: Sequence[Figure]) -> str:
    return json.dumps([dataclasses.asdict(figure) | {"met": figure.met} for figure in figures], indent=2)


def as_page(figures: Sequence[Figure], machine: dict[str, str], took: float) -> str:
    return "\n".join(
        [
            "# Performance",
            "",
            "<!-- Written by `make bench`; every number is from that run. Edit bench/report.py, not this page. -->",
            "",
            f"Measured by `make bench` ({took:.0f} s) on:",
            "",
            *(f"- {name}: {fact}" for name, fact in machine.items()),
            "",
            "## Targets",
            "",
            *_markdown([figure for figure in figures if figure.target is not None], targets=True),
            "",
            "## For information",
            "",
            *_markdown([figure for figure in figures if figure.target is None], targets=False),
            "",
            "## How it is measured",
            "",
            _HOW,
        ]
    )


def _markdown(figures: Sequence[Figure], *, targets: bool) -> list[str]:
    head = ["what", "against", "measured", "p10 – p90", *(["target", "met"] if targets else []), "in absolute numbers"]
    rows = [head, ["---"] * len(head)]
    rows += [[*_cells(figure)[: len(head) - 1], figure.note] for figure in figures]
    return [f"| {' | '.join(row)} |" for row in rows]


def _cells(figure: Figure) -> tuple[str, ...]:
    met = {True: "yes", False: "**no**", None: ""}[figure.met]
    return figure.what, figure.against, figure.shown, figure.spread_shown, figure.target_shown, met
