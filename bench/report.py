"""The figures as a table for a terminal, as JSON, and as the page in docs/."""

import dataclasses
import json
from collections.abc import Sequence

from bench.figure import Figure

_HOW = """\
The machine also does other work, and its noise comes in phases, so a single time says little. Every figure marked × is
a **ratio**: its two sides take turns in short blocks within the same run of the bench, each round gives one ratio, and
the figure is the **median** of the rounds. The spread is their 10th and 90th percentile. If the target is ≥, more is
better; if it is ≤, less is better. Absolute numbers are for information: they are of this machine, on this day, under
the load named above.

- **Appending** uses `open_run` and `OwnedRun.append` on the files backend, with the real `fdatasync`, sequence numbers,
  hash chain, fold and snapshots. The raw side writes the same bytes to a growing `O_APPEND` file on the same disk. The
  events are those of a synthetic run: tasks in waves, turns, tool calls; two thirds are messages. Both ratios depend on
  the disk: an append costs some microseconds of Python more than its sync, which count more on a faster disk.
  The 64 producers that only encode and hash write lines of the same length: no journal of this kind can be faster.
- **Opening** is a complete `open_run`: lock, repair, snapshot, tail. Each round has its own process and is timed after
  the imports. The figure with a snapshot is the median of the openings in that process; the first opening of each
  process has its own row. The log is in the page cache for all sides. The seed's way is that of the Resume Protocol:
  every line through `json.loads` into a list, then a filter.
- **A rewind** is what the command does, with the plan that it shows first, in a process of its own. The kernel counts
  what that process reads (`rchar`), also from the page cache.
- **Memory** is the growth of the process from after its imports to its peak (`VmHWM`). Both logs have the same number
  of tasks; one has ten times as many messages.
- **Starting** spawns `.venv/bin/holdfast` and the bare interpreter in turn, with output to `/dev/null`, bytecode
  compiled as by `make setup`, a warm catalog, and no `PYTHON…` variable set.
- **Snapshots** are complete: Holdfast checks that the folder is its own, and writes and syncs a ref. `git status` is
  spawned as directly as possible, with output to `/dev/null`.
- **Worktrees**: a run is opened (lock, repair, fold, fence, settle), its branches and worktrees are compared with its
  log, and its session is ended. Git processes are counted by git's own trace.
- **Git a task**: a wrapper in PATH measures the CPU of each git that Holdfast starts, with its children, over a whole
  run with a playbook agent; the start and end of the run are in it too. The script adds a worktree, asks for the
  status, stages, commits, merges, and removes worktree and branch.
- **Overhead**: CPU is user and system time of all processes of a command. A helper process is their subreaper, so that
  orphans count too. The plain scripts are in bench/: `plain_client.py` asks the same agent over `json`, between the 7
  git commands; `plain_loop.py` has a worker and an evaluator a task, which report to `plain_mcp.py`. Nothing of that is
  recorded, synced or checked. The agents of `loop` note their own CPU time, which is taken off both sides. For the
  first prompt both sides are killed when the agent has it. Memory is `Pss` of `/proc/PID/smaps_rollup`, while all
  agents have listed their tools and wait in a turn.
- **A run of many tasks** is compared with `plain_client.py` too, on the clock.
- **Many tasks at once**: with agents that wait, the figure shows what runs at the same time. With agents that are done
  at once, it shows how many processors the run keeps busy; other work on the machine takes its part of them.
- **Conversations**: each side has its own playbook agent, a real process with the same script: it thinks, uses a tool
  and answers, in 50 updates. Through Holdfast a turn is a durable record of all that, synced before the prompt is sent,
  at each step of the tool, and at the end. The bare client discards what it receives.
- **An idle runner** is a process that owns a run and has had one turn with an agent that now waits: `Rss` and `Pss` of
  `/proc/PID/smaps_rollup`, with the engine's modules for work on a repository loaded.
- **Live text**: the agent says 400 words in one turn. Ten listeners in another process read every hint; for the other
  side of the ratio they disconnect. It is of the runner's CPU time: the clock also measures the agent, the disk and the
  listeners, which share the processors. The delay ends when a terminal shows the word in `holdfast attach`. It begins
  before the agent speaks: its script looks every 10 ms for a file, which the bench creates. It is measured in
  `holdfast chat` too, whose runner is a process of its own.
- **Following**: both processes read the same monotonic clock; the follower reads it after it has flushed its line.
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
