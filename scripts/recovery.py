"""Writes what is made in docs/recovery.md: the table of crash points, and the numbers of the last suites.

.venv/bin/python scripts/recovery.py            write it
.venv/bin/python scripts/recovery.py --check    exit 1 when the points are not those of the code, or the numbers not
                                                those of docs/trials.jsonl
.venv/bin/python scripts/recovery.py --sources  the fingerprint of what the trials depend on, as it is now

Trials are noted in .torture, on the machine that holds them. What came of those that were held to their end goes into
docs/trials.jsonl, a line for each way to die and scenario, the newest last: so a number stays until its suite is held
anew, wherever that is, and each tells of which sources it is.
"""

import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from string import ascii_lowercase
from typing import Any, NamedTuple

_ROOT = os.path.join(os.path.dirname(__file__), "..")
sys.path.insert(0, _ROOT)

import holdfast  # noqa: E402 - the tests' report is found from the root
from holdfast.leaf.failpoints import POINTS  # noqa: E402
from scripts import cluster_numbers  # noqa: E402
from tests.support.crash_suite.scenarios import SCENARIOS, TRUSTFUL  # noqa: E402
from tests.support.crash_suite.trial_log import FOLDER, LOAD, Way, sources  # noqa: E402

DOCS = os.path.join(_ROOT, "docs", "recovery.md")
TRIALS = os.path.join(_ROOT, "docs", "trials.jsonl")
_POINTS = "<!-- points: made by scripts/recovery.py -->\n"
_NUMBERS = "<!-- numbers: made by scripts/recovery.py -->\n"
_CROWD = "<!-- load: made by scripts/recovery.py -->\n"
_CLUSTER = "<!-- cluster: made by scripts/recovery.py -->\n"

for _module in walk_packages(holdfast.__path__, "holdfast."):  # importing a module registers its failpoints
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
    """What came of a suite that was held to its end: a line of docs/trials.jsonl."""

    way: str
    scenario: str
    sources: str  # the fingerprint of what was tried
    counts: dict[str, int]
    problems: int  # whatever ever went wrong, be it that it passed later


@cache
def noted(name: str) -> list[dict[str, Any]]:
    """Every line of a report, the oldest first."""
    path = FOLDER / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def held(way: Way, scenario: str) -> Held | None:
    """The last suite of which every part was held, on whatever sources."""
    parts: dict[str, set[tuple[int, int]]] = {}
    for one in noted("shards"):
        if (one["way"], one["scenario"]) == (way, scenario):
            parts[one["sources"]] = {*parts.pop(one["sources"], ()), (one["which"], one["of"])}  # the last one last
    whole = [key for key, found in parts.items() if any(found >= {(n, of) for n in range(of)} for _, of in found)]
    if not whole:
        return None
    tried = [one for one in noted(way) if (one["sources"], one["scenario"]) == (whole[-1], scenario)]
    reached = {str(one["failpoints"]): one for one in tried if one["deaths"] or one["problem"] is not None}
    wrong = {str(one["failpoints"]) for one in tried if one["problem"] is not None}
    again = sum(one["deaths"] > 1 for one in reached.values()) if way is Way.KILLED else 0
    return Held(way, scenario, whole[-1], {"once": len(reached) - again, "again": again}, len(wrong))


def loads() -> Iterator[Held]:
    """Yield the last finished load of each size."""
    over = {(one["scenario"], one["which"], one["sources"]) for one in noted("shards") if one["way"] == LOAD}
    last = {one["at_once"]: one for one in noted(LOAD) if (str(one["at_once"]), one["seed"], one["sources"]) in over}
    for at_once, end in last.items():
        lived = [one for one in noted(LOAD) if all(one[key] == end[key] for key in ("at_once", "seed", "sources"))]
        sums = {name: sum(one[name] for one in lived) for name in ("sittings", "kills", "messages")}
        counts = {"seconds": round(max(one["seconds"] for one in lived)), "runs": len(lived), **sums}
        problems = sum(one["problem"] is not None for one in lived)
        yield Held(LOAD, str(at_once), end["sources"], counts, problems)


def known() -> list[Held]:
    """Return the results recorded here and in trials.jsonl, oldest first."""
    with open(TRIALS, encoding="utf-8") as file:
        found = {(one.way, one.scenario): one for one in (Held(**json.loads(line)) for line in file)}
    if "--check" not in sys.argv[1:]:
        order = [one["sources"] for one in noted("shards")]
        new = [one for way in Way for scenario in (*SCENARIOS, *TRUSTFUL) if (one := held(way, scenario)) is not None]
        for one in [*sorted(new, key=lambda one: len(order) - order[::-1].index(one.sources)), *loads()]:
            if found.get((one.way, one.scenario)) != one:
                found.pop((one.way, one.scenario), None)
                found[one.way, one.scenario] = one
    return [*found.values()]


def marks(of: list[Held]) -> dict[str, str]:
    """Return the mark of each version of the sources: none for the newest, then a letter."""
    newest_first = dict.fromkeys(one.sources for one in reversed(of))
    return dict(zip(newest_first, ["", *(f" ({letter})" for letter in ascii_lowercase)], strict=False))


def numbers(of: list[Held]) -> str:
    heads = ("scenario", "killed once", "twice or more", "power cut", "disk full", "disk error", "wrong")
    columns = [(Way.KILLED, "once"), (Way.KILLED, "again")]
    columns += [(way, "once") for way in (Way.POWER_CUT, Way.DISK_FULL, Way.DISK_FAILED)]
    mark = marks(of)
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for scenario in (*SCENARIOS, *TRUSTFUL):
        own = {one.way: one for one in of if one.scenario == scenario}
        cells = [f"{own[way].counts[name]}{mark[own[way].sources]}" if way in own else "" for way, name in columns]
        rows.append(f"| {' | '.join([f'`{scenario}`', *cells, str(sum(one.problems for one in own.values()))])} |")
    newest, *older = mark
    sentence = (
        f"{sum(sum(one.counts.values()) for one in of)} trials, of the sources whose fingerprint is `{newest}` "
        "(`scripts/recovery.py --sources`)"
    )
    before = [f"those with{mark[key]} of `{key}`, before it" for key in older]
    return "\n".join(["; ".join([sentence, *before]) + ":", "", *rows]) + "\n"


def crowd(of: list[Held]) -> str:
    """Return one row per load. The records call sessions `sittings`."""
    names = ("seconds", "runs", "sittings", "kills", "messages")
    heads = ("runs at once", "seconds", "runs", "sessions", "kills", "messages", "wrong", "sources")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in of:
        cells = (one.scenario, *(one.counts[name] for name in names), one.problems, f"`{one.sources}`")
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def made(trials: list[Held], placed: str) -> str:
    with open(DOCS, encoding="utf-8") as file:
        prose, mark, rest = file.read().partition(_POINTS)
    assert all((mark, _NUMBERS in rest, _CROWD in rest, _CLUSTER in rest)), f"a marker line is missing in {DOCS}"
    of_load = [one for one in trials if one.way == LOAD]
    others = [one for one in trials if one.way != LOAD]
    return (
        f"{prose}{_POINTS}\n{points()}\n{_NUMBERS}\n{numbers(others)}\n{_CROWD}\n{crowd(of_load)}\n{_CLUSTER}\n{placed}"
    )


def main() -> int:
    if "--sources" in sys.argv[1:]:
        print(sources())
        return 0
    trials, placed = known(), cluster_numbers.results(with_new="--check" not in sys.argv[1:])
    text = made(trials, cluster_numbers.table(placed))
    with open(DOCS, encoding="utf-8") as file:
        is_current = text == file.read()
    if "--check" in sys.argv[1:]:
        if not is_current:
            print("docs/recovery.md is stale: run scripts/recovery.py", file=sys.stderr)
        return 0 if is_current else 1
    with open(TRIALS, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(one._asdict()) + "\n" for one in trials)
    cluster_numbers.keep(placed)
    with open(DOCS, "w", encoding="utf-8") as file:
        file.write(text)
    earlier = [f"{one.way} {one.scenario}" for one in trials if one.sources != sources()]
    if earlier:
        print(f"of earlier sources: {', '.join(earlier)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
