"""Crash points: everything that must survive has one, and nobody comes upon them by accident."""

import ast
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.git.effects import GitEffect
from holdfast.leaf.crashing import FILE, POINTS, WHAT
from holdfast.store.disk import REAL, Appending
from tests.cli.program import Program
from tests.support.doom.place import Place
from tests.support.doom.suite import Theatres

SOURCES = Path(holdfast.__file__).parent

# Where bytes are made durable without a point of its own: why none is needed.
WITHOUT = {
    "store/disk.py": "the calls themselves",
    "leaf/directories.py": "the call itself",
    "store/repair.py": "called between the points of log.repair",
    "store/owner.py": "who holds the lock is told by the kernel; the file is for people",
    "git/worktree.py": "part of an effect, and so between its points",
    "agents/confined.py": "a file of the work, written in its place where it cannot be replaced",
    "engine/matrix.py": "what was measured of agents: measured again when it is lost",
    "engine/containers.py": "not of a run",
    "engine/selftest/disk.py": "not of a run",
    "engine/config_files.py": "the user's trust in a file: asked for again",
}


def syncing() -> Iterator[str]:
    """The modules that bring bytes to a disk."""
    for path in SOURCES.glob("**/*.py"):
        names = {
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }
        imported = "from holdfast.store.disk import" in path.read_text()
        if names & {"fsync", "fdatasync", "write_all", "sync_directory"} or (imported and "replace" in names):
            yield path.relative_to(SOURCES).as_posix()


def kinds(of: type[GitEffect] = GitEffect) -> Iterator[str]:
    """Of everything that can be done to a repository."""
    for one in of.__subclasses__():
        if "kind" in vars(one):
            yield one.kind
        yield from kinds(one)


def test_every_effect_has_its_two_points() -> None:
    found = set(kinds())
    assert len(found) > 12
    assert {name for name in POINTS if name.startswith("effect.")} == {
        f"effect.{kind}.{side}" for kind in (*found, "settle") for side in ("before", "after")
    }


def test_whatever_brings_bytes_to_the_disk_has_a_point_or_a_reason_for_none() -> None:
    found = {path: (SOURCES / path).read_text() for path in syncing()}
    pointed = {path for path, text in found.items() if "leaf.crashing import" in text or "Appending(" in text}
    assert found.keys() - pointed - WITHOUT.keys() == set()
    assert WITHOUT.keys() <= found.keys(), "a reason for what is no longer there"


@pytest.mark.parametrize("family", ["journal.append", "inbox.append", "snapshot.save"])
def test_an_append_can_be_cut_off_before_in_the_middle_and_after(family: str) -> None:
    assert {f"{family}.{side}" for side in ("before", "torn", "after")} <= POINTS.keys()


def test_without_a_doom_the_journal_writes_by_the_very_disk_that_it_was_given() -> None:
    assert Appending("some.append").on(REAL) is REAL
    del POINTS["some.append.before"], POINTS["some.append.torn"], POINTS["some.append.after"]


@pytest.fixture
def program(home: str, tmp_path: Path) -> Program:
    os.makedirs(home)
    return Program(home, str(tmp_path))


def test_one_variable_alone_kills_nobody_and_says_nothing(program: Program, tmp_path: Path) -> None:
    assert program("--version", env={WHAT: "journal.append.before:1"}).err == ""
    assert program("--version", env={FILE: str(tmp_path / "passes")}).err == ""
    assert program("--version", env={WHAT: "journal.append.before:1", FILE: str(tmp_path / "none")}).err == ""


def test_who_is_doomed_says_so(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    said = program("--version", env={WHAT: "journal.append.before:2:group", FILE: str(passes)}).err
    assert said == "holdfast: HOLDFAST_CRASH is on: group will be killed at pass 2 of journal.append.before\n"


def test_a_doom_that_cannot_be_read_is_refused(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    for doom in ("journal.append.before", "journal.append.before:x", "a:1:nobody"):
        assert "unset it" in program("--version", code=2, env={WHAT: doom, FILE: str(passes)}).complaint


def test_a_real_program_is_really_killed(program: Program, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    passes.touch()
    doom = {WHAT: "journal.append.before:1", FILE: str(passes)}
    with program.start("demo", "--json", env=doom) as process:
        process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL
    assert "journal.append.before" in passes.read_text()


def test_neither_agents_nor_validators_inherit_a_doom(theatres: Theatres) -> None:
    place: Place = theatres("solo").place()
    look = {"run": "env > agent.env"}
    place.scenario = place.scenario._replace(
        turns=[{"when": "the greeting", "steps": [look]}],
        settings=('validators.commands.look={"command": ["sh", "-c", "env > validator.env"]}',),
    )
    place.write()
    assert place.begin("record").code == 0
    for who in ("agent", "validator"):
        seen = place.git("show", f"holdfast/{place.run_id}/main:{who}.env")
        assert f"HOLDFAST_RUN={place.run_id}" in seen
        assert "HOLDFAST_CRASH" not in seen
    place.remove()
