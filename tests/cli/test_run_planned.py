"""A run made ready first, and started later; with seeds; and one that died while it was made."""

import os

import pytest

from tests.cli.program import doom
from tests.support.doom.nursery import KILLED
from tests.support.projects import write
from tests.support.stage import HELLO, Stage, branch


def test_what_was_planned_is_started_by_run(stage: Stage) -> None:
    planned = stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO), "--json").object["run"]
    assert stage.holdfast("ls", "--json").object["status"] == "planned"
    assert stage.data(planned, "turn.started") == []
    assert stage.run() == planned
    assert stage.file(planned, "hello.txt") == "hello"
    assert "no run is prepared here" in stage.holdfast("run", code=4).complaint


def test_seeds_are_one_commit_for_every_task_to_stand_on(stage: Stage) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n", "tests/two.txt": "2\n"})
    before = stage.project.footprint()
    run = stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO), "--seed", "tests").out.strip()
    assert stage.subjects(run) == ["Seed files"]
    assert stage.file(run, "tests/two.txt") == "2"
    assert stage.project.footprint().status == before.status
    stage.run()
    assert stage.subjects(run) == ["Seed files", "say hello", "Merge task T-1"]
    assert stage.project.git("diff", "--name-only", f"{branch(run)}~1", branch(run)) == "hello.txt"


def test_a_seed_from_elsewhere_is_refused_in_one_line(stage: Stage) -> None:
    write(stage.folder, {"elsewhere.txt": "x"})
    complaint = stage.holdfast("plan", "say hello", "--seed", f"{stage.folder}/elsewhere.txt", code=2).complaint
    assert "is not in the repository" in complaint


def killed_in_the_making(stage: Stage, *options: str) -> str:
    """A run whose planner was killed while git made its worktree."""
    hook = os.path.join(stage.project.git_dir, "hooks", "post-checkout")
    gate = f"{stage.folder}/gate"
    os.mkfifo(gate)
    write(os.path.dirname(hook), {"post-checkout": f"#!/bin/sh\necho here > {gate}\nsleep 100\n"})
    os.chmod(hook, 0o755)
    with stage.start("plan", "say hello", "--agent", stage.book(HELLO), *options) as process:
        with open(gate, encoding="utf-8") as opened:
            assert opened.read() == "here\n"
        process.kill()
        process.wait()
    os.unlink(hook)
    return stage.only_run()


@pytest.mark.torture
def test_one_that_was_killed_while_it_was_planned_can_go_on(stage: Stage) -> None:
    run = killed_in_the_making(stage)
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "hello.txt") == "hello"
    stage.holdfast("verify", run)


def test_one_that_was_killed_before_it_had_its_seeds_does_not_go_on_without_them(stage: Stage) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n"})
    run = killed_in_the_making(stage, "--seed", "tests")
    assert "holdfast reset" in stage.holdfast("resume", run, code=4).err
    stage.holdfast("reset", run, "-y")
    assert stage.project.branches() == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_one_that_was_killed_with_half_of_its_seeds_does_not_go_on_with_those(stage: Stage, side: str) -> None:
    write(stage.project.path, {"one.txt": "1\n", "two.txt": "2\n"})
    before = stage.project.footprint()
    seeds = ("--seed", "one.txt", "--seed", "two.txt")
    env = doom(stage.folder, f"seed.copy.{side}:{'2' if side == 'before' else '1'}")
    stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO), *seeds, env=env, code=KILLED)
    run = stage.only_run()
    assert "holdfast reset" in stage.holdfast("resume", run, code=4).err
    stage.holdfast("reset", run, "-y")
    assert stage.project.branches() == []
    assert stage.project.footprint().status == before.status


def test_an_untrusted_project_file_is_told_of(stage: Stage) -> None:
    stage.project.commit({".holdfast.toml": '[hooks]\nsession_start = ["touch /tmp/never"]\n'}, "Config")
    told = stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO))
    assert "ignored until you trust this file: hooks.session_start" in told.err
    assert "ignored until you trust" in stage.holdfast("resume", told.out.strip(), "--quiet").err
