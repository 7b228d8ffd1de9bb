"""What was tried, a line a trial: so that a long suite can be cut off, and goes on where it stood.

A line is of one state of the sources; those of others are passed over.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PATH = ROOT / ".torture" / "crashes.jsonl"


class Tried(NamedTuple):
    scenario: str
    dooms: tuple[str, ...]
    deaths: int
    sittings: int
    problem: str | None = None


def sources() -> str:
    """A fingerprint of all that the trials depend on."""
    found = hashlib.sha256()
    for path in sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/support/doom/*.py")]):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


class Report:
    def __init__(self, path: Path = PATH) -> None:
        self._path = path
        self._sources = sources()

    def tried(self) -> Iterator[Tried]:
        if not self._path.exists():
            return
        for line in self._path.read_text().splitlines():
            entry = json.loads(line)
            if entry.pop("sources") == self._sources:
                yield Tried(**{**entry, "dooms": tuple(entry["dooms"])})

    def passed(self, scenario: str) -> set[tuple[str, ...]]:
        return {entry.dooms for entry in self.tried() if entry.scenario == scenario and entry.problem is None}

    def add(self, tried: Tried) -> None:
        """One write of one line: several processes may do so."""
        self._path.parent.mkdir(exist_ok=True)
        line = json.dumps({"sources": self._sources, **tried._asdict()}) + "\n"
        with open(self._path, "ab", buffering=0) as file:
            file.write(line.encode())


def left(report: Report, scenario: str, wanted: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those that did not pass yet."""
    passed = report.passed(scenario)
    return [dooms for dooms in wanted if dooms not in passed]
