"""Writes what is made in docs/recovery.md: the table of crash points, and the numbers of the last suite.

.venv/bin/python scripts/recovery.py            write it
.venv/bin/python scripts/recovery.py --check    exit 1 when the points are not those of the code
"""

import os
import sys
from collections import Counter
from importlib import import_module

_ROOT = os.path.join(os.path.dirname(__file__), "..")
sys.path.insert(0, _ROOT)

from holdfast.leaf.crashing import POINTS  # noqa: E402 - the tests' report is found from the root
from tests.support.doom.report import Lived, Tried, Way, lives, trials  # noqa: E402
from tests.support.doom.scenarios import SCENARIOS  # noqa: E402

DOCS = os.path.join(_ROOT, "docs", "recovery.md")
_POINTS = "<!-- points: made by scripts/recovery.py -->\n"
_NUMBERS = "<!-- numbers: made by scripts/recovery.py -->\n"
_CROWD = "<!-- load: made by scripts/recovery.py -->\n"

# Everybody who has a point.
for _module in (
    "engine.sitting",
    "engine.preferences",
    "app.mcp.server",
    "agents.playbook.sessions",
    "agents.builtin.session_file",
):
    import_module(f"holdfast.{_module}")


def points() -> str:
    sides: dict[str, list[str]] = {}
    for name in POINTS:
        family, _, side = name.rpartition(".")
        sides.setdefault(family, []).append(side)
    rows = [f"| `{family}` | {', '.join(found)} |" for family, found in sorted(sides.items())]
    return "\n".join(["| point | |", "|---|---|", *rows]) + "\n"


def numbers(tried: list[tuple[Way, Tried]]) -> str:
    """Of a trial that was made twice, the later counts."""
    found = {(way, one.scenario, one.dooms): (way, one) for way, one in tried}.values()
    heads = ("scenario", "killed once", "twice or more", "power cut", "disk full", "disk error", "not as it should be")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for scenario in sorted({one.scenario for _, one in found}, key=list(SCENARIOS).index):
        trials = [(way, one) for way, one in found if one.scenario == scenario]
        deaths = Counter(min(one.deaths, 2) for way, one in trials if way is Way.KILLED)
        others = Counter(way for way, _ in trials)
        problems = sum(one.problem is not None for _, one in trials)
        counts = (deaths[1], deaths[2], *(others[way] for way in (Way.POWER_CUT, Way.DISK_FULL, Way.DISK_FAILED)))
        cells = (f"`{scenario}`", *counts, problems)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([f"{len(found)} trials, of the sources as they were when the suite last ran:", "", *rows]) + "\n"


def crowd(lived: list[Lived]) -> str:
    """One row a load."""
    heads = ("runs at once", "seconds", "runs", "sittings", "kills", "messages", "not as it should be")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key in dict.fromkeys((one.at_once, one.seed) for one in lived):
        load = [one for one in lived if (one.at_once, one.seed) == key]
        sums = [sum(values) for values in zip(*((one.sittings, one.kills, one.messages) for one in load), strict=True)]
        problems = sum(one.problem is not None for one in load)
        cells = (key[0], round(max(one.seconds for one in load)), len(load), *sums, problems)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def made() -> str:
    with open(DOCS, encoding="utf-8") as file:
        prose, mark, rest = file.read().partition(_POINTS)
    _, also, rest = rest.partition(_NUMBERS)
    old, too, old_crowd = rest.partition(_CROWD)
    for line, found in ((_POINTS, mark), (_NUMBERS, also), (_CROWD, too)):
        assert found, f"{DOCS} has no line {line!r}"
    is_check = "--check" in sys.argv[1:]
    tried = [] if is_check else [(way, one) for way in Way for one in trials(way).entries()]
    lived = [] if is_check else list(lives().entries())
    of_trials = f"\n{numbers(tried)}\n" if tried else old
    of_crowd = f"\n{crowd(lived)}" if lived else old_crowd
    return f"{prose}{_POINTS}\n{points()}\n{_NUMBERS}{of_trials}{_CROWD}{of_crowd}"


def main() -> int:
    text = made()
    with open(DOCS, encoding="utf-8") as file:
        if text == file.read():
            return 0
    if "--check" in sys.argv[1:]:
        print("docs/recovery.md is stale: run scripts/recovery.py", file=sys.stderr)
        return 1
    with open(DOCS, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
