"""`ls` when its catalog is missing, damaged, foreign, locked or read-only: a little slower, and still right."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.engine.home import Home
from holdfast.engine.queries.runs import list_runs
from tests.cli.program import Program, finished
from tests.cli.runs import DONE, log_of, make_run, resume_run, said
from tests.cli.terminal import shown

RUNS = [f"run{number}-abc234" for number in range(3)]


@pytest.fixture
def catalog(holdfast: Program) -> Path:
    """A home of three runs with an up-to-date catalog."""
    for name in RUNS:
        make_run(holdfast.home, name, said(f"hello from {name}"), DONE)
    assert len(asyncio.run(list_runs(Home(holdfast.home)))) == 3
    path = Path(holdfast.home, "catalog.sqlite")
    assert path.is_file()
    return path


def assert_listed(holdfast: Program, **how: bool) -> None:
    found = {run["id"]: run["status"] for run in holdfast("ls", "--json", **how).objects}
    assert found == dict.fromkeys(RUNS, "done")


def assert_right(holdfast: Program, **how: bool) -> None:
    assert_listed(holdfast, **how)
    assert [hit["run"] for hit in holdfast("ls", "--search", "hello run1", "--json", **how).objects] == ["run1-abc234"]


def test_reading_many_runs_is_shown_on_a_terminal_and_cleared(holdfast: Program) -> None:
    for number in range(101):
        make_run(holdfast.home, f"run-{number:03d}-abc234", DONE)
    first = shown(holdfast, "ls", columns=100)
    assert "\r\x1b[K… reading runs: 100 of 101\r\x1b[K" in first
    assert first.count("run-") == 101
    assert "reading" not in shown(holdfast, "ls", columns=100)
    assert "\r\x1b[K… checking runs: 100 of 101\r\x1b[K" in shown(holdfast, "doctor")


def pages_of_garbage(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


def without_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 1")
    db.close()


def of_another_version(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"this is no database, " * 1000),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        pages_of_garbage,
        without_tables,
        of_another_version,
        a_folder,
    ],
    ids=["deleted", "emptied", "garbage", "cut short", "garbage inside", "no tables", "another version", "a folder"],
)
def test_a_catalog_that_is_damaged_is_made_anew(
    holdfast: Program, catalog: Path, damage: Callable[[Path], None]
) -> None:
    damage(catalog)
    assert_right(holdfast)
    assert_listed(holdfast)


@pytest.fixture
def read_only(holdfast: Program, catalog: Path) -> Iterator[Callable[[], None]]:
    """Call it to take away every right to write in the home."""

    def forbid() -> None:
        for file in Path(holdfast.home).glob("catalog*"):
            file.chmod(0o400)
        os.chmod(holdfast.home, 0o500)

    yield forbid
    os.chmod(holdfast.home, 0o700)


@pytest.mark.parametrize("state", ["up to date", "behind", "of a removed run", "missing", "garbage"])
def test_a_home_that_may_not_be_written_is_listed_all_the_same(
    holdfast: Program, catalog: Path, read_only: Callable[[], None], state: str
) -> None:
    match state:
        case "behind":
            resume_run(holdfast.home, "run0-abc234", said("more"), DONE)
        case "of a removed run":
            with sqlite3.connect(catalog) as db:
                db.execute("UPDATE runs SET id = 'gone-abc234' WHERE id = 'run0-abc234'")
            db.close()
        case "missing":
            catalog.unlink()
        case "garbage":
            catalog.write_bytes(b"garbage" * 1000)
    read_only()
    assert_right(holdfast, unprivileged=True)


def test_a_catalog_that_another_process_holds_locked_delays_nobody_for_ever(holdfast: Program, catalog: Path) -> None:
    resume_run(holdfast.home, "run0-abc234", DONE)
    db = sqlite3.connect(catalog, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    try:
        found = holdfast("ls", "--json").objects
    finally:
        db.close()
    assert {run["id"]: run["sessions"] for run in found} == {RUNS[0]: 2, RUNS[1]: 1, RUNS[2]: 1}


@pytest.mark.parametrize("state", ["missing", "garbage", "behind"])
def test_eight_listings_at_once_are_all_right(holdfast: Program, catalog: Path, state: str) -> None:
    match state:
        case "missing":
            catalog.unlink()
        case "garbage":
            catalog.write_bytes(b"garbage" * 1000)
        case "behind":
            for name in RUNS:
                resume_run(holdfast.home, name, DONE)
    started = [holdfast.start("ls", "--json") for _ in range(8)]
    for process in started:
        assert [run["id"] for run in finished(process).objects] == sorted(RUNS, reverse=True)
    assert_right(holdfast)


def test_listings_at_once_index_what_was_said_once(holdfast: Program, catalog: Path) -> None:
    for name in RUNS:
        resume_run(holdfast.home, name, *(said(f"unheard {number}") for number in range(50)), DONE)
    started = [holdfast.start("ls") for _ in range(8)]
    for process in started:
        finished(process)
    found = holdfast("ls", "--search", "unheard 7", "--json").objects
    assert sorted(hit["run"] for hit in found) == RUNS


def test_nobody_else_can_read_what_was_said(holdfast: Program, catalog: Path) -> None:
    catalog.unlink()
    os.chmod(holdfast.home, 0o755)
    holdfast("ls", umask=0o022)
    for file in (catalog, log_of(holdfast.home, RUNS[0])):
        assert file.stat().st_mode & 0o077 == 0
