"""What was tried, a line a trial: so that a long suite can be cut off, and goes on where it stood.

A line is of one state of the sources; those of others are passed over.
"""

import hashlib
import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".torture"

LOAD = "load"  # the way of those that are killed at random, among many; each size of it is a scenario

Failpoints = tuple[str | None, ...]  # of each session


class Way(StrEnum):
    """What befell the runs; each has a file of its own."""

    KILLED = "crashes"
    POWER_CUT = "power"
    DISK_FULL = "pages"
    DISK_FAILED = "errors"


class Shard(NamedTuple):
    """A part of the trials of a scenario, of which there are so many."""

    way: Way
    which: int
    of: int


class Tried(NamedTuple):
    """Without a death, or whatever else was to befall it, it shows nothing."""

    scenario: str
    failpoints: Failpoints
    deaths: int
    sessions: int
    problem: str | None = None


class Finished(NamedTuple):
    """All trials of a shard were held, whatever came of them; in some nobody came by where somebody was to die."""

    way: str
    scenario: str
    which: int
    of: int
    trials: int = 0
    not_reached: int = 0


class Lived(NamedTuple):
    """A run among many that were killed at random. `seconds` is how long the load lasted by then."""

    seed: int
    number: int
    scenario: str
    kills: int
    sittings: int  # sessions; the committed records call them so
    messages: int
    at_once: int
    seconds: float
    problem: str | None = None


Entry = TypeVar("Entry", Tried, Finished, Lived)

_TRIALS = ("test_crash_anywhere", "test_power_cut_of_runs", "test_bad_disk", "test_load")


def sources() -> str:
    """A fingerprint of all that the trials depend on."""
    own = [path for path in ROOT.glob("src/**/*") if path.is_file() and path.suffix != ".pyc"]
    tests = [*ROOT.glob("tests/support/**/*.py"), *(ROOT / "tests" / "crash" / f"{name}.py" for name in _TRIALS)]
    found = hashlib.sha256()
    for path in sorted(own + tests):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


class Report(Generic[Entry]):
    def __init__(self, kind: type[Entry], path: Path) -> None:
        self._kind: type[Entry] = kind
        self._path = path
        self._sources = sources()

    def entries(self) -> Iterator[Entry]:
        if not self._path.exists():
            return
        for line in self._path.read_text().splitlines():
            entry = json.loads(line)
            if entry.pop("sources") == self._sources:
                fields: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
                yield self._kind(**fields)

    def add(self, tried: Entry) -> None:
        """One write of one line: several processes may do so."""
        self._path.parent.mkdir(exist_ok=True)
        line = json.dumps({"sources": self._sources, **tried._asdict()}) + "\n"
        with open(self._path, "ab", buffering=0) as file:
            file.write(line.encode())


def trials(way: Way) -> Report[Tried]:
    return Report(Tried, FOLDER / f"{way}.jsonl")


def shards() -> Report[Finished]:
    return Report(Finished, FOLDER / "shards.jsonl")


def lives() -> Report[Lived]:
    return Report(Lived, FOLDER / f"{LOAD}.jsonl")


def passed(report: Report[Tried], scenario: str) -> set[Failpoints]:
    """What was tried already, and went well."""
    own = [entry for entry in report.entries() if entry.scenario == scenario]
    return {entry.failpoints for entry in own if entry.deaths and entry.problem is None}
