"""Writes what is made in docs/recovery.md: the table of crash points, and the numbers of the last suite.

.venv/bin/python scripts/recovery.py            write it
.venv/bin/python scripts/recovery.py --check    exit 1 when the points are not those of the code
.venv/bin/python scripts/recovery.py --sources  the fingerprint of what the trials depend on, as it is now
"""

import json
import os
import sys
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from string import ascii_lowercase
from typing import Any, NamedTuple

_ROOT = os.path.join(os.path.dirname(__file__), "..")
sys.path.insert(0, _ROOT)

import holdfast  # noqa: E402 - the tests' report is found from the root
from holdfast.leaf.crashing import POINTS  # noqa: E402
from tests.support.doom.report import FOLDER, Lived, Way, lives, sources  # noqa: E402
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

    sources: str  # the fingerprint of what was tried
    trials: list[dict[str, Any]]
    problems: int

    @classmethod
    def of(cls, way: Way, scenario: str) -> "Held | None":
        """The last ones of which every part was held, on whatever sources."""
        parts: dict[str, set[tuple[int, int]]] = {}
        for one in noted("shards"):
            if (one["way"], one["scenario"]) == (way, scenario):
                parts.setdefault(one["sources"], set()).add((one["which"], one["of"]))
                parts[one["sources"]] = parts.pop(one["sources"])  # the last one last
        whole = [key for key, found in parts.items() if any(found >= {(n, of) for n in range(of)} for _, of in found)]
        if not whole:
            return None
        tried = [one for one in noted(way) if (one["sources"], one["scenario"]) == (whole[-1], scenario)]
        reached = {str(one["dooms"]): one for one in tried if one["deaths"] or one["problem"] is not None}
        wrong = {str(one["dooms"]) for one in tried if one["problem"] is not None}
        return cls(whole[-1], list(reached.values()), len(wrong))


@cache
def noted(name: str) -> list[dict[str, Any]]:
    """Every line of a report, the oldest first."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Counted(NamedTuple):
    """A cell of the table."""

    trials: int
    sources: str | None = None


def counted(scenario: str) -> tuple[list[Counted], int]:
    """Of one scenario: each way to die, and how many trials did not end as they should."""
    held = {way: found for way in Way if (found := Held.of(way, scenario)) is not None}
    cells = []
    for way in (Way.KILLED, Way.POWER_CUT, Way.DISK_FULL, Way.DISK_FAILED):
        one = held.get(way)
        again = sum(trial["deaths"] > 1 for trial in one.trials) if one is not None and way is Way.KILLED else 0
        cells.append(Counted(len(one.trials) - again, one.sources) if one is not None else Counted(0))
        if way is Way.KILLED:
            cells.append(Counted(again, one.sources if one is not None else None))
    return cells, sum(one.problems for one in held.values())


def numbers() -> str | None:
    """None when no suite was held to its end."""
    heads = ("scenario", "killed once", "twice or more", "power cut", "disk full", "disk error", "not as it should be")
    table = {scenario: counted(scenario) for scenario in SCENARIOS}
    cells = [cell for row, _ in table.values() for cell in row if cell.sources is not None]
    if not cells:
        return None
    order = [one["sources"] for one in noted("shards")]
    by_age = sorted({str(cell.sources) for cell in cells}, key=lambda key: len(order) - order[::-1].index(key))
    *older, newest = by_age
    marks = {newest: "", **{key: f" ({letter})" for key, letter in zip(older, ascii_lowercase, strict=False)}}
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for scenario, (row, problems) in table.items():
        told = [f"{cell.trials}{marks[cell.sources]}" if cell.sources is not None else "" for cell in row]
        rows.append(f"| {' | '.join([f'`{scenario}`', *told, str(problems)])} |")
    sentence = (
        f"{sum(cell.trials for cell in cells)} trials, of the sources whose fingerprint is `{newest}` "
        "(`scripts/recovery.py --sources`)"
    )
    before = [f"those with{marks[key]} of `{key}`, before it" for key in older]
    return "\n".join(["; ".join([sentence, *before]) + ":", "", *rows]) + "\n"


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
