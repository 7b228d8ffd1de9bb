"""`holdfast merge`: a run's work into a branch of the user's that is not checked out."""

import os

import pytest

from holdfast.core.events.agent import AgentSpawned
from holdfast.core.events.task import TaskStarted
from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import log_of, make_run
from tests.support.projects import Project, do_task, leave_interrupted, new_run, workspace_of, write


@pytest.fixture
def run_id(holdfast: Program, project: Project) -> str:
    """A run from `main`, which is checked out; `release` is not."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id, files={"n.txt": "n\n"})
    project.git("branch", "release")
    return run_id


def test_a_branch_that_is_not_checked_out_moves_forward_once(holdfast: Program, project: Project, run_id: str) -> None:
    tip = project.tip(f"holdfast/{run_id}/main")
    first = holdfast("merge", run_id, "--into", "release", "--json").object
    assert first == {
        "branch": f"holdfast/{run_id}/main",
        "target": "release",
        "commit": tip,
        "already": False,
        "uncommitted": 0,
        "hook_not_run": None,
    }
    assert project.tip("release") == tip
    again = holdfast("merge", run_id, "--into", "release")
    assert again.out == f"holdfast/{run_id}/main  already merged into release  at {tip[:12] if tip else ''}\n"
    assert project.tip("release") == tip


def test_show_names_the_branch_that_has_the_work(holdfast: Program, project: Project, run_id: str) -> None:
    assert holdfast("show", run_id).lines[-1] == f"Done. Merge it with: holdfast merge {run_id}"
    holdfast("merge", run_id, "--into", "release")
    shown = holdfast("show", run_id)
    assert shown.lines[-1].startswith("Done, and merged into release.")
    assert any(line.split()[:3] == ["merged", "into", "release"] for line in shown.lines)


def test_a_branch_that_went_on_gets_a_merge_commit(holdfast: Program, project: Project, run_id: str) -> None:
    project.git("switch", "--quiet", "release")
    project.commit({"r.txt": "r\n"}, "On release")
    project.git("switch", "--quiet", "main")
    holdfast("merge", run_id, "--into", "release")
    assert project.show("release:n.txt") == "n"
    assert project.show("release:r.txt") == "r"
    assert len(project.git("log", "-1", "--format=%P", "release").split()) == 2
    assert project.git("log", "-1", "--format=%(trailers:key=Holdfast-Run,valueonly)", "release") == run_id


def test_a_run_begun_from_another_branch_goes_back_there(holdfast: Program, project: Project) -> None:
    project.git("branch", "develop")
    run_id = new_run(holdfast.home, project, base="develop")
    do_task(holdfast.home, run_id)
    holdfast("merge", run_id)
    assert project.tip("develop") == project.tip(f"holdfast/{run_id}/main")
    project.git("branch", "--quiet", "-D", "develop")
    assert "'develop', which is no branch (any more)" in holdfast("merge", run_id, code=2).complaint


def test_conflicts_leave_everything_as_it_was(holdfast: Program, project: Project, run_id: str) -> None:
    project.git("switch", "--quiet", "release")
    project.commit({"n.txt": "another\n", "e\x1b[2Jvil.txt": "1\n"}, "On release")
    project.git("switch", "--quiet", "main")
    write(workspace_of(holdfast.home, run_id, "T-1"), {"e\x1b[2Jvil.txt": "2\n"})
    do_task(holdfast.home, run_id)
    before = project.footprint()
    said = holdfast("merge", run_id, "--into", "release", code=1).complaint
    assert "conflicts in e·[2Jvil.txt, n.txt" in said
    assert project.footprint() == before
    assert "may or may not" not in holdfast("doctor", code=1).out


def test_what_is_in_no_commit_is_told_and_not_merged(holdfast: Program, project: Project, run_id: str) -> None:
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    outcome = holdfast("merge", run_id, "--into", "release", "--json")
    assert outcome.err == "not included: 1 changed file in the run's worktree that are not committed\n"
    assert outcome.object["uncommitted"] == 1
    assert project.git("ls-tree", "--name-only", "release").split() == ["a.txt", "n.txt"]


@pytest.mark.parametrize("into", ["nobody", "", "main~0", "origin/main", "-x", "a..b"])
def test_a_name_that_is_no_branch_changes_nothing(holdfast: Program, project: Project, run_id: str, into: str) -> None:
    before = project.footprint()
    assert f"there is no branch {into!r} to merge into" in holdfast("merge", run_id, f"--into={into}", code=2).complaint
    assert project.footprint() == before


def test_a_run_that_somebody_owns_is_not_touched(holdfast: Program, project: Project, run_id: str) -> None:
    with owner_of(holdfast.home, run_id) as owner:
        before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
        assert f"is owned by pid {owner.pid}" in holdfast("merge", run_id, "--into", "release", code=5).complaint
        assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before


def test_runs_that_have_nothing_to_merge_say_why(holdfast: Program, project: Project, run_id: str) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert holdfast("merge", "demo", code=4).complaint == "run demo-abc234 works on no repository"
    assert "there is no run 'nobody'" in holdfast("merge", "nobody", code=4).complaint
    holdfast("archive", run_id)
    assert f"run {run_id} is archived" in holdfast("merge", run_id, "--into", "release", code=4).complaint
    os.rename(project.path, f"{project.path}-moved")
    assert "not at" in holdfast("merge", run_id, code=2).complaint


def test_an_interrupted_run_is_as_interrupted_afterwards(holdfast: Program, project: Project, run_id: str) -> None:
    leave_interrupted(holdfast.home, run_id, TaskStarted(task_id="T-2"), AgentSpawned(name="eng", task="T-2"))
    before = holdfast("analyze", run_id).out
    assert "eng" in before
    holdfast("merge", run_id, "--into", "release")
    holdfast("push", run_id)
    holdfast("doctor", "--fix", code=1)
    assert holdfast("analyze", run_id).out == before
    assert holdfast("ls", "--json").object["status"] == "interrupted"
