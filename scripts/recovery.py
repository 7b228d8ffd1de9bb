"""Writes what is made in docs/recovery.md: the table of crash points, and the numbers of the last suite.

.venv/bin/python scripts/recovery.py            write it
.venv/bin/python scripts/recovery.py --check    exit 1 when the points are not those of the code
.venv/bin/python scripts/recovery.py --sources  the fingerprint of what the trials depend on, as it is now
"""

import os
import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple

_ROOT = os.path.join(os.path.dirname(__file__), "..")
sys.path.insert(0, _ROOT)

import holdfast  # noqa: E402 - the tests' report is found from the root
from holdfast.leaf.crashing import POINTS  # noqa: E402
from tests.support.doom.report import Lived, Tried, Way, lives, shards, sources, trials  # noqa: E402
from tests.support.doom.scenarios import SCENARIOS  # noqa: E402

DOCS = os.path.join(_ROOT, "docs", "recovery.md")
_POINTS = "<!-- points: made by scripts/recovery.py -->\n"
_NUMBERS = "<!-- numbers: made by scripts/recovery.py -->\n"
_CROWD = "<!-- load: made by scripts/recovery.py -->\n"

for _module in walk_packages(holdfast.__path__, "holdfast."):  # whoever has a point
    if not _module.name.endswith("__main__"):
        import_module(_module.name)


def points() -> str:
    sides: dict[str, list[str]] = {}
    for name in POINTS:
        family, _, side = name.rpartition(".")
        sides.setdefault(family, []).append(side)
    rows = [f"| `{family}` | {', '.join(found)} |" for family, found in sorted(sides.items())]
    return "\n".join(["| point | |", "|---|---|", *rows]) + "\n"


class Held(NamedTuple):
    """All trials of one way and one scenario, each once. What ever went wrong counts, be it that it passed later."""

    trials: list[Tried]
    problems: int

    @classmethod
    def of(cls, way: Way, scenario: str) -> "Held":
        """None, unless every part of them was held."""
        parts = {(one.which, one.of) for one in shards().entries() if (one.way, one.scenario) == (way, scenario)}
        if not any(parts >= {(which, of) for which in range(of)} for _, of in parts):
            return cls([], 0)
        tried = [one for one in trials(way).entries() if one.scenario == scenario]
        reached = {one.dooms: one for one in tried if one.deaths or one.problem is not None}
        return cls(list(reached.values()), len({one.dooms for one in tried if one.problem is not None}))


def numbers() -> str | None:
    """None when no suite was held to its end."""
    heads = ("scenario", "killed once", "twice or more", "power cut", "disk full", "disk error", "not as it should be")
    rows, all_of_them = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"], 0
    for scenario in SCENARIOS:
        held = {way: Held.of(way, scenario) for way in Way}
        again = sum(one.deaths > 1 for one in held[Way.KILLED].trials)
        others = [len(held[way].trials) for way in (Way.POWER_CUT, Way.DISK_FULL, Way.DISK_FAILED)]
        counts = [len(held[Way.KILLED].trials) - again, again, *others]
        cells = [f"`{scenario}`", *(count or "" for count in counts), sum(one.problems for one in held.values())]
        rows.append(f"| {' | '.join(map(str, cells))} |")
        all_of_them += sum(counts)
    told = f"{all_of_them} trials, of the sources whose fingerprint is `{sources()}` (`scripts/recovery.py --sources`):"
    return "\n".join([told, "", *rows]) + "\n" if all_of_them else None


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
    held = None if is_check else numbers()
    lived = [] if is_check else list(lives().entries())
    of_trials = f"\n{held}\n" if held is not None else old
    of_crowd = f"\n{crowd(lived)}" if lived else old_crowd
    return f"{prose}{_POINTS}\n{points()}\n{_NUMBERS}{of_trials}{_CROWD}{of_crowd}"


def main() -> int:
    if "--sources" in sys.argv[1:]:
        print(sources())
        return 0
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
