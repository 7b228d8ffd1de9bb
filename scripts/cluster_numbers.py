"""The numbers of the proofs of placement, for docs/recovery.md: the newest result of each test of tests/cluster.

The tests append to .torture/cluster.jsonl on the machine that holds them; `scripts/recovery.py` keeps the newest of
each in docs/cluster-trials.jsonl.
"""

import json
import os
from typing import Any

_ROOT = os.path.join(os.path.dirname(__file__), "..")
_NEW = os.path.join(_ROOT, ".torture", "cluster.jsonl")
KEPT = os.path.join(_ROOT, "docs", "cluster-trials.jsonl")


def results(*, with_new: bool) -> dict[str, dict[str, Any]]:
    """Return the newest result of each proof, or part of one: those that are kept, and those of this machine."""
    found: dict[str, dict[str, Any]] = {}
    for path in (KEPT, *([_NEW] if with_new else [])):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found |= {_key(line): line for line in map(json.loads, file)}
    return found


def _key(line: dict[str, Any]) -> str:
    return f"{line['what']}.{line['part']}" if "part" in line else str(line["what"])


def keep(of: dict[str, dict[str, Any]]) -> None:
    with open(KEPT, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(of[what]) + "\n" for what in sorted(of))


def table(of: dict[str, dict[str, Any]]) -> str:
    rows = ["| what was done, on one host | rounds | lost | measured |", "|---|---|---|---|"]
    if kill := of.get("kill"):
        gap = (
            f"until the run has a new owner: median {kill['p50_s']:.1f} s, p95 {kill['p95_s']:.1f} s; no turn repeated"
        )
        rows.append(f"| a worker with its agents killed (SIGKILL) | {kill['rounds']} | {kill['lost']} | {gap} |")
    if zombie := of.get("zombie"):
        what = "a worker frozen, its run taken over, the worker thawed, the new owner killed"
        rows.append(f"| {what} | {zombie['rounds']} | {zombie['lost']} | |")
    if ended := of.get("terminated"):
        times = f"it ended within {ended['p50_s']:.1f} s (median), {ended['max_s']:.1f} s at most; no process left"
        what = "a worker ended by SIGTERM, in a turn or as a session begins"
        rows.append(f"| {what} | {ended['rounds']} | {ended['lost']} | {times} |")
    if push := of.get("push"):
        rows.append(f"| a replaced owner pushes its refs | {push['rounds']} | 0 | {push['taken']} pushes taken |")
    if parts := [line for line in of.values() if line["what"] == "database"]:
        rounds, events, messages, wrong = (
            sum(part[name] for part in parts) for name in ("rounds", "events", "messages", "wrong")
        )
        what = "Postgres killed (SIGKILL, all its processes) while a run and its inbox are written"
        facts = f"{events:,} events and {messages:,} messages, {wrong} twice or missing"
        rows.append(f"| {what} | {rounds} | {wrong} | {facts} |")
    if away := of.get("temporal_away"):
        what = f"the Temporal server killed for {away['seconds']} s"
        rows.append(f"| {what} | {away['runs']} runs | {away['interrupted']} interrupted | |")
    if cut := of.get("network"):
        times = (
            f"its agents dead after {cut['agents_dead_s']:.1f} s, its lease over after {cut['lease_s']:.0f} s, "
            f"a new owner after {cut['taken_over_s']:.1f} s"
        )
        rows.append(f"| a machine's network cut, its agents alive | 1 | 0 | {times} |")
    return "\n".join(rows) + "\n"
