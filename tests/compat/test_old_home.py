"""A home that an earlier version wrote: its runs are listed and verified, and continue to the right end.

`tests/fixtures/old_home/make.py` says how the archives are made. Logs contain absolute paths and cannot be rewritten,
so a home is unpacked at the path at which it was made; a lock keeps tests that run at once apart.
"""

import fcntl
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.fixtures.old_home.make import ARCHIVE, HOME, REPO, ROOT
from tests.support.cli_stage import Stage, alive, branch, outcome, wait_for_event
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.projects import Project

UNPACKED = ROOT / "unpacked-by-tests"
STATES = {
    "kelp": "done",
    "in-turn": "interrupted",
    "asking": "interrupted",
    "in-commit": "interrupted",
    "before-merge": "interrupted",
    "in-merge": "interrupted",
    "torn": "interrupted",
    "approval": "waiting",
    "in-review": "interrupted",
}
WAVE = ["Merge task A", "Merge task B", "make A", "make B"]
PIPELINE = ["make A", "Merge task A", "Fix what the review found", "Merge task fix-1"]


@pytest.fixture
def old(warm: Nursery) -> Iterator[Stage]:
    """The unpacked home, and its repository."""
    lock = os.open(f"{ROOT}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if UNPACKED.exists():
            shutil.rmtree(ROOT)  # of a test that was killed
        ROOT.mkdir()  # fails if it exists: it is not ours
        UNPACKED.touch()
        with tarfile.open(ARCHIVE) as archive:
            archive.extraction_filter = tarfile.tar_filter if hasattr(tarfile, "tar_filter") else None
            archive.extractall(ROOT)
        try:
            yield Stage(Program(str(HOME), str(REPO), warm), Project(str(ROOT)), str(ROOT), warm)
        finally:
            shutil.rmtree(ROOT)
    finally:
        os.close(lock)


def run_named(stage: Stage, slug: str) -> str:
    (run_id,) = (path.name for path in Path(stage.home, "runs").glob(f"{slug}-??????"))
    return run_id


def assert_ended(stage: Stage, run_id: str) -> None:
    """Every task is complete, nothing is left over, and there is nothing more to do."""
    assert set(stage.states(run_id).values()) == {"COMPLETE"}
    assert [name for name in stage.project.branches() if run_id in name] == [branch(run_id)]
    assert stage.project.git("status", "--porcelain") == ""
    effects = stage.project.git("log", "--format=%(trailers:key=Holdfast-Effect,valueonly)", branch(run_id)).split()
    assert len(effects) == len(set(effects))
    assert alive(stage) == []
    stage.holdfast("verify", run_id)
    stage.holdfast("resume", run_id, code=4)


def test_old_home_is_listed_shown_and_verified(old: Stage) -> None:
    """Reading works on every run, with and without the catalog that the earlier version wrote."""
    for _ in range(2):
        rows = {row["id"].rpartition("-")[0]: row["status"] for row in old.holdfast("ls", "--json").objects}
        assert rows == STATES
        for catalog in Path(old.home).glob("catalog*"):
            catalog.unlink()
    for slug in STATES:
        run_id = run_named(old, slug)
        old.holdfast("show", run_id)
        old.holdfast("logs", run_id)
        old.holdfast("verify", run_id, code=1 if slug == "torn" else 0)
        old.holdfast("analyze", run_id)


def test_finished_demo_can_be_exported_and_archived(old: Stage) -> None:
    run_id = run_named(old, "kelp")
    page = Path(old.folder, "page.html")
    old.holdfast("export", run_id, "-o", str(page))
    assert "Kelp" in page.read_text(encoding="utf-8")
    old.holdfast("resume", run_id, code=4)
    old.holdfast("archive", run_id)
    old.holdfast("verify", run_id)


def test_interrupted_turn_continues(old: Stage) -> None:
    run_id = run_named(old, "in-turn")
    assert old.resume(run_id)["ended"] == "all_done"
    assert [old.file(run_id, name) for name in ("before.txt", "after.txt")] == ["before", "after"]
    assert_ended(old, run_id)


@pytest.mark.parametrize(("command", "answer"), [("approve", "allowed"), ("deny", "rejected")])
def test_open_permission_request_is_answered(old: Stage, command: str, answer: str) -> None:
    """The earlier version did not show what a call would do, so the agent's next request needs an answer of its own."""
    run_id = run_named(old, "asking")
    old.holdfast(command, run_id)
    with old.start("resume", run_id) as process:
        wait_for_event(process, "permission.requested", title="Delete the notes")
        old.holdfast(command, run_id)
        outcome(process)
    assert old.file(run_id, "answer.txt") == answer
    assert_ended(old, run_id)


@pytest.mark.parametrize("slug", ["in-commit", "before-merge", "in-merge", "torn"])
def test_interrupted_effect_happens_once(old: Stage, slug: str) -> None:
    run_id = run_named(old, slug)
    assert old.resume(run_id)["ended"] == "all_done"
    assert sorted(old.subjects(run_id)) == WAVE
    assert_ended(old, run_id)


def test_approval_completes_the_pipeline(old: Stage) -> None:
    run_id = run_named(old, "approval")
    old.holdfast("approve", run_id)
    assert old.resume(run_id)["ended"] == "all_done"
    assert old.subjects(run_id) == PIPELINE
    assert_ended(old, run_id)


def test_interrupted_review_continues_in_its_phase(old: Stage) -> None:
    run_id = run_named(old, "in-review")
    assert old.resume(run_id, "--set", "approvals=given")["ended"] == "all_done"
    assert old.subjects(run_id) == PIPELINE
    assert len(old.data(run_id, "plan.created")) == 2
    assert_ended(old, run_id)
