"""Crash points: everything that must survive has one, and nobody comes upon them by accident."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.git.effects import GitEffect
from holdfast.leaf.crashing import FILE, POINTS, WHAT
from holdfast.store.disk import REAL, Appending
from tests.cli.program import Program
from tests.support.doom.place import Place
from tests.support.doom.suite import Theatres
from tests.support.lasting import lasting_functions

RECOVERY = Path(__file__).parents[2] / "docs" / "recovery.md"

# What outlives us and has no point of its own: it is done between those of its caller,
BETWEEN = {
    "agents/driver.py speaking": "agent.spawn",
    "agents/replacing.py _fill": "file.replace",
    "engine/hook_calls.py _called": "hook.run",
    "git/effects/worktrees.py MakeWorktree.sync": "effect.worktree.make",
    "git/entries.py _out_of_sight": "entry.drop",
    "git/worktree.py _note_made": "effect.worktree.make",
    "git/worktree.py _note_making": "effect.worktree.make",
    "store/inbox.py FileInbox._write": "inbox.append",  # by the disk that it was given
    "store/journal.py FileJournal._commit": "journal.append",  # by the disk that it was given
    "store/making.py _make_log": "run.make",
    "store/repair.py repair": "log.repair",
    "store/repair.py _set_aside": "log.repair",
}
# or it needs none.
WITHOUT = {
    "agents/builtin/session_file.py SessionFile.create": "a session that nobody was told of yet",
    "agents/builtin/tools.py _searched": "it only reads",
    "agents/confined.py write_text": "a file of the work, written in its place where it cannot be replaced",
    "agents/playbook/deeds.py _leave_running": "what an agent does, by a script",
    "agents/playbook/deeds.py _run_to_the_end": "what an agent does, by a script",
    "agents/playbook/program.py serve": "the same agent, once more",
    "agents/runtimes/sandbox.py _must_work": "it is asked whether it works, and does nothing",
    "agents/runtimes/tmux.py lacking": "it is asked for its version",
    "agents/tmux/control.py listening": "it only listens",
    "agents/tmux/starting.py main": "it becomes the agent for whom its window was made",
    "agents/tree.py _started": "the call itself: whoever has one `grown` has the points",
    "app/cli/attach.py _become": "a person looks at a run",
    "app/cli/dashboard/attaching.py attach_here": "a person looks at a run",
    "engine/config_files.py trust": "the user's trust in a file: asked for again",
    "engine/config_files.py write_first": "the user's own config: whole or not there",
    "engine/demonstration.py _started": "a show, in a home of its own",
    "engine/matrix.py _set_aside": "under a name that follows from its content: done again",
    "engine/matrix.py keep": "what was measured of agents: measured again when it is lost",
    "engine/rehearsal.py git": "a show, in a home of its own",
    "engine/rehearsal.py set_up": "a show, in a home of its own",
    "engine/rehearsal.py started": "a show, in a home of its own",
    "engine/selftest/child.py child": "not of a run",
    "engine/selftest/disk.py renaming": "not of a run",
    "git/process.py run_program": "every command of git has a test of its own, by a git that dies: test_git_effects",
    "leaf/directories.py sync_directory": "the call itself",
    "store/disk.py make_directories": "empty folders: made again",
    "store/disk.py replace": "the call itself",
    "store/inbox.py FileInbox._make_durable": "what others wrote: synced again by the next who reads",
    "store/making.py take_away": "of a run that was never made: taken away by the next who looks",
    "store/owner.py _write_record": "who holds the lock is told by the kernel; the file is for people",
    "store/repair.py end_line": "of a torn end: set aside by the next who writes",
}


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


def test_whatever_outlives_us_has_a_point_or_a_reason_for_none() -> None:
    """Function by function: what it writes, and what it starts."""
    found = lasting_functions()
    bare = {one.name for one in found if not one.has_point}
    assert len(found) - len(bare) > 10
    assert bare - BETWEEN.keys() - WITHOUT.keys() == set(), "neither a point nor a reason"
    assert (BETWEEN.keys() | WITHOUT.keys()) - bare == set(), "a reason that nobody needs"
    assert BETWEEN.keys() & WITHOUT.keys() == set()


@pytest.mark.parametrize("family", sorted(set(BETWEEN.values())))
def test_what_has_its_callers_points_has_them(family: str) -> None:
    assert f"\n| `{family}` |" in RECOVERY.read_text(encoding="utf-8"), "the table, which is made from the code"


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
