"""`holdfast push`: a run's branch to a remote, once, never by force, and known for sure."""

import os

import pytest

from tests.cli.owner import owner_of
from tests.cli.program import Program
from tests.cli.runs import log_of, make_run
from tests.support.projects import Project, do_task, new_run, workspace_of, write


@pytest.fixture
def run_id(holdfast: Program, project: Project) -> str:
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id)
    return run_id


def test_the_branch_is_pushed_under_its_own_name_once(holdfast: Program, project: Project, run_id: str) -> None:
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    branch = f"holdfast/{run_id}/main"
    tip = project.tip(branch)
    first = holdfast("push", run_id, "--json")
    pushed = {"branch": branch, "target": "origin", "commit": tip, "uncommitted": 1, "hook_not_run": None}
    assert first.object == {**pushed, "already": False}
    assert "not included: 1 changed file" in first.err
    assert project.git("rev-parse", branch, at=project.remote) == tip
    assert holdfast("push", run_id).out == f"{branch}  already pushed to origin  at {tip[:12] if tip else ''}\n"
    os.unlink(os.path.join(workspace_of(holdfast.home, run_id), "draft.txt"))
    do_task(holdfast.home, run_id, "T-2")
    assert holdfast("push", run_id, "--json").object["already"] is False
    assert project.git("rev-parse", branch, at=project.remote) == project.tip(branch)


@pytest.mark.parametrize("pushurl", [False, True])
def test_remote_with_a_relative_path_is_found_from_the_main_checkout(
    holdfast: Program, project: Project, run_id: str, pushurl: bool
) -> None:
    """The run's worktree is elsewhere, and git resolves the path in the folder where it runs."""
    relative = os.path.relpath(project.remote, project.path)
    project.git("config", "remote.origin.pushurl" if pushurl else "remote.origin.url", relative)
    for already in (False, True):
        assert holdfast("push", run_id, "--json").object["already"] is already
    assert project.git("rev-parse", f"holdfast/{run_id}/main", at=project.remote) == project.tip(
        f"holdfast/{run_id}/main"
    )


def test_the_users_config_is_not_changed(holdfast: Program, project: Project, run_id: str) -> None:
    before = project.footprint()
    holdfast("push", run_id)
    after = project.footprint()
    assert (after.config, after.staged, after.status) == (before.config, before.staged, before.status)


def test_a_branch_that_somebody_else_moved_is_not_overwritten(holdfast: Program, project: Project, run_id: str) -> None:
    """And that it was not pushed is known, though the commit that is there was never seen here."""
    branch = f"holdfast/{run_id}/main"
    elsewhere = f"{project.path}-elsewhere"
    project.git("clone", "--quiet", project.remote, elsewhere)
    theirs = ("-c", "user.name=B", "-c", "user.email=b@example.com", "commit", "--quiet", "--allow-empty", "-mTheirs")
    project.git(*theirs, at=elsewhere)
    project.git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}", at=elsewhere)
    there = project.git("rev-parse", branch, at=project.remote)
    before = project.footprint()
    assert "git push" in holdfast("push", run_id, code=1).complaint
    assert project.git("rev-parse", branch, at=project.remote) == there
    assert project.footprint() == before
    assert "may or may not" not in holdfast("doctor", code=1).out


def test_a_remote_that_cannot_be_reached_leaves_a_question_that_is_answered_later(
    holdfast: Program, project: Project, run_id: str
) -> None:
    project.git("remote", "set-url", "origin", f"{project.remote}-gone")
    holdfast("push", run_id, code=1)
    assert "push may or may not have happened" in holdfast("doctor", code=1).out
    still = holdfast("doctor", "--fix", code=1)
    assert still.lines[0].startswith("failed")
    project.git("remote", "set-url", "origin", project.remote)
    assert holdfast("doctor", "--fix").lines[0].startswith("repaired")
    assert "no problems found" in holdfast("doctor").err


def test_the_remote_can_be_chosen_and_must_be_there(holdfast: Program, project: Project, run_id: str) -> None:
    project.git("remote", "add", "fork", project.remote)
    assert holdfast("push", run_id, "--remote", "fork", "--json").object["target"] == "fork"
    complaint = holdfast("push", run_id, "--remote", "nobody", code=2).complaint
    assert complaint == "there is no remote 'nobody'; remotes: fork, origin"
    project.git("remote", "rename", "origin", "upstream")
    assert "which remote?" in holdfast("push", run_id, code=2).complaint


def test_a_run_that_somebody_owns_is_not_touched(holdfast: Program, project: Project, run_id: str) -> None:
    with owner_of(holdfast.home, run_id):
        before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
        assert "is owned by pid" in holdfast("push", run_id, code=5).complaint
        assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before
    assert project.git("for-each-ref", "refs/heads/holdfast", at=project.remote) == ""


def test_runs_that_have_nothing_to_push_say_why(holdfast: Program, run_id: str) -> None:
    make_run(holdfast.home, "demo-abc234")
    assert holdfast("push", "demo", code=4).complaint == "run demo-abc234 works on no repository"
    assert "there is no run 'nobody'" in holdfast("push", "nobody", code=4).complaint
    holdfast("archive", run_id)
    assert "is archived" in holdfast("push", run_id, code=4).complaint
