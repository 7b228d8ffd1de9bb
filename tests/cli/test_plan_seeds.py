"""`plan --seed`: files that a run begins with, read before anything is made, and never half there."""

import os
from pathlib import Path

import pytest

from tests.cli.program import failpoint_environment
from tests.support.cli_stage import HELLO, Stage, branch
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.projects import write

RECORDED = "journal.append.after:4"  # by then the plan is in the log
POINTS = (
    *(f"run.make.{side}:1" for side in ("before", "begun", "after")),
    *(f"journal.append.{side}:{number}" for number in (1, 2) for side in ("before", "torn", "after")),
    *(f"effect.seeds.commit.{side}:1" for side in ("before", "after")),
    *(f"journal.append.{side}:{number}" for number in (3, 4, 5) for side in ("before", "torn", "after")),
    *(f"effect.worktree.make.{side}:1" for side in ("before", "after")),
    *(f"journal.append.{side}:{number}" for number in (6, 7) for side in ("before", "torn", "after")),
    *(f"anchor.{side}:1" for side in ("before", "after")),
    *(f"snapshot.save.{side}:1" for side in ("before", "torn", "after")),
)
TRIED_EACH_TIME = (
    "journal.append.torn:1",
    "effect.seeds.commit.before:1",
    "effect.seeds.commit.after:1",
    "journal.append.torn:4",
    "journal.append.after:4",
    "effect.worktree.make.before:1",
    "effect.worktree.make.after:1",
)


def plan(stage: Stage, *options: str, code: int = 0, env: dict[str, str] | None = None) -> str:
    agent = stage.book(HELLO)
    return stage.holdfast("plan", "say hello", "--agent", agent, *options, code=code, env=env or {}).out.strip()


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


def test_seeds_outside_the_checkout_are_placed_by_their_own_name(stage: Stage) -> None:
    write(stage.folder, {"shared/acceptance/one.txt": "1\n", "notes.txt": "n\n"})
    run = plan(stage, "--seed", f"{stage.folder}/shared/acceptance", "--seed", "../notes.txt")
    assert stage.file(run, "acceptance/one.txt") == "1"
    assert stage.file(run, "notes.txt") == "n"
    (committed,) = stage.data(run, "seeds.committed")
    assert committed == {"commit": stage.project.tip(branch(run)), "branch": branch(run), "changed": 0, "seeds": 2}


def test_seeds_keep_modes_and_links_and_leave_out_what_is_ignored(stage: Stage) -> None:
    stage.project.commit({".gitignore": "*.log\n"}, "Ignore logs")
    write(stage.project.path, {"tests/run.sh": "#!/bin/sh\n", "tests/x.log": "x\n", "named.log": "n\n"})
    os.chmod(f"{stage.project.path}/tests/run.sh", 0o755)
    os.symlink("run.sh", f"{stage.project.path}/tests/link")
    run = plan(stage, "--seed", "tests", "--seed", "tests/run.sh", "--seed", "named.log")
    listed = stage.project.git("ls-tree", "-r", branch(run), "tests", "named.log").splitlines()
    assert [(line.split()[0], line.split("\t")[1]) for line in listed] == [
        ("100644", "named.log"),
        ("120000", "tests/link"),
        ("100755", "tests/run.sh"),
    ]


def test_seeds_that_are_committed_already_make_no_commit(stage: Stage) -> None:
    run = plan(stage, "--seed", "a.txt")
    assert stage.subjects(run) == []
    assert stage.run() == run


@pytest.mark.parametrize(
    "seeds",
    [
        ("tests", "missing"),
        ("tests", ".git"),
        ("pipe",),
        ("empty",),
        ("tests", "../tests"),
        ("secret.txt",),
    ],
    ids=["missing", "git's own", "a pipe", "empty", "two in one place", "unreadable"],
)
def test_refused_seeds_leave_nothing(stage: Stage, seeds: tuple[str, ...]) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n", "secret.txt": "s\n"})
    write(stage.folder, {"tests/one.txt": "other\n"})
    os.mkfifo(f"{stage.project.path}/pipe")
    os.mkdir(f"{stage.project.path}/empty")
    os.chmod(f"{stage.project.path}/secret.txt", 0)
    before = stage.project.footprint()
    options = [part for seed in seeds for part in ("--seed", seed)]
    with stage.holdfast.start("plan", "say hello", *options, unprivileged=True) as process:
        _, err = process.communicate()
    assert (process.returncode, err.count(b"\n")) == (2, 1), err
    assert b"--seed" in err
    assert stage.holdfast("ls", "--json").out == ""
    assert stage.project.footprint() == before


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=[] if point in TRIED_EACH_TIME else pytest.mark.torture) for point in POINTS],
)
def test_killed_plan_continues_with_its_seeds_or_is_never_offered(stage: Stage, point: str) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n", "two.txt": "2\n"})
    before = stage.project.footprint()
    plan(stage, "--seed", "tests", "--seed", "two.txt", env=failpoint_environment(stage.folder, point), code=KILLED)
    write(stage.project.path, {"tests/one.txt": "changed since\n"})
    os.unlink(f"{stage.project.path}/two.txt")
    runs = [row["id"] for row in stage.holdfast("ls", "--json").objects]
    if runs and stage.holdfast("show", runs[0], "--json").object["state"]["checkpoints"]:
        (run,) = runs
        assert stage.resume()["run"] == run
        assert stage.subjects(run) == ["Seed files", "say hello", "Merge task T-1"]
        assert (stage.file(run, "tests/one.txt"), stage.file(run, "two.txt")) == ("1", "2")
        stage.holdfast("verify", run)
        return
    assert POINTS.index(point) < POINTS.index(RECORDED)
    assert stage.holdfast("resume", "--json", code=4).out == ""
    stage.holdfast("run", code=4)
    for run in runs:
        stage.holdfast("resume", run, code=4)
        stage.holdfast("reset", run, "-y")
    assert stage.project.branches() == []
    assert stage.project.footprint().without_salvage().refs == before.refs


def test_every_point_that_a_plan_with_seeds_passes_is_tried(stage: Stage) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n"})
    plan(stage, "--seed", "tests", env=failpoint_environment(stage.folder, "record"))
    passed = [line.split()[0] for line in Path(stage.folder, "passes").read_text().splitlines()]
    numbered = [f"{name}:{passed[: at + 1].count(name)}" for at, name in enumerate(passed)]
    assert [point for point in numbered if not point.startswith("log.repair")] == list(POINTS)


def test_seeds_come_back_with_a_branch_that_was_deleted(stage: Stage) -> None:
    write(stage.project.path, {"seed.txt": "s\n"})
    run = plan(stage, "--seed", "seed.txt")
    stage.project.git("worktree", "remove", "--force", f"{stage.home_of(run)}/workspace")
    stage.project.git("branch", "-D", branch(run))
    Path(f"{stage.project.path}/seed.txt").unlink()
    stage.run(code=1)
    stage.resume(run, "--on-issue", "retry")
    assert stage.file(run, "seed.txt") == "s"
