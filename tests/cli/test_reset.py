"""`holdfast reset`: everything of a run goes, what would be lost is saved, and the user's own is as it was."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import open_workspace
from tests.cli.owner import owner_of
from tests.cli.program import Program, failpoint_environment, finished
from tests.cli.runs import log_of, make_run
from tests.cli.terminal import CTRL_C, EOF, answered
from tests.support.programs import DeadlyGit
from tests.support.projects import Footprint, Project, do_task, leave_interrupted, new_run, workspace_of, write


def merged_run(holdfast: Program, project: Project) -> tuple[str, Footprint]:
    """A run all of whose work is in `main`; and the repository as it would be without it."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id)
    project.git("merge", "--quiet", f"holdfast/{run_id}/main")
    footprint = project.footprint()
    ours = f"/{run_id}/"
    return run_id, footprint._replace(
        refs="\n".join(line for line in footprint.refs.splitlines() if ours not in line),
        worktrees=footprint.worktrees.partition("\n\n")[0],
    )


def unmerged_run(holdfast: Program, project: Project) -> str:
    """A task merged into the run, nothing of the run merged by the user, and a file in no commit."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id)
    write(workspace_of(holdfast.home, run_id), {"draft.txt": "d\n"})
    return run_id


def assert_gone(holdfast: Program, project: Project, run_id: str) -> None:
    assert not os.path.exists(os.path.dirname(log_of(holdfast.home, run_id)))
    assert not os.path.exists(os.path.join(holdfast.home, "trash"))
    assert project.branches() == []
    assert project.worktrees() == []
    assert project.git("for-each-ref", "refs/holdfast/snapshot") == ""


def saved_files(project: Project) -> set[str]:
    """The files that salvage brings back, from all refs together."""
    listed = (project.git("ls-tree", "-r", "--name-only", ref) for ref in project.salvage())
    return {name for names in listed for name in names.split()}


def test_of_a_run_that_never_did_anything_no_trace_is_left(holdfast: Program, project: Project) -> None:
    before = project.footprint()
    run_id = new_run(holdfast.home, project)
    assert holdfast("reset", "add-oauth", "-y").out == f"{run_id}  reset\n"
    assert_gone(holdfast, project, run_id)
    assert project.footprint() == before
    assert not os.path.exists(os.path.join(project.git_dir, "worktrees"))


def test_reset_of_a_run_that_is_gone_is_no_error_for_scripts(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    holdfast("reset", run_id, "-y")
    before = project.footprint()
    again = holdfast("reset", run_id, "-y", "--json").object
    assert (again["id"], again["reset"], again["salvaged"]) == (run_id, False, [])
    assert project.footprint() == before
    assert f"no run {run_id!r}" in holdfast("reset", run_id, code=4).complaint


def test_of_a_run_that_is_merged_no_trace_is_left(holdfast: Program, project: Project) -> None:
    run_id, before = merged_run(holdfast, project)
    assert holdfast("reset", run_id, "-y", "--json").object == {"id": run_id, "reset": True, "salvaged": []}
    assert_gone(holdfast, project, run_id)
    assert project.footprint() == before


def test_what_is_not_merged_is_saved_and_nothing_else_is_left(holdfast: Program, project: Project) -> None:
    before = project.footprint()
    run_id = unmerged_run(holdfast, project)
    told = holdfast("reset", run_id, "-y", "--json").object
    assert_gone(holdfast, project, run_id)
    assert sorted(told["salvaged"]) == project.salvage()
    assert saved_files(project) == {"a.txt", "T-1.txt", "draft.txt"}
    assert project.footprint().without_salvage() == before


def test_a_branch_that_its_user_has_checked_out_is_not_taken_away(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    project.git("switch", "--quiet", "--ignore-other-worktrees", f"holdfast/{run_id}/main")
    before = project.tip("HEAD")
    assert f"is checked out in {project.path}" in holdfast("reset", run_id, "-y", code=5).complaint
    assert project.tip("HEAD") == before
    project.git("switch", "--quiet", "main")
    holdfast("reset", run_id, "-y")
    assert_gone(holdfast, project, run_id)


@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), (EOF, 1), (CTRL_C, 130)], ids=repr
)
def test_on_a_terminal_it_asks_and_does_what_is_said(
    holdfast: Program, project: Project, answer: str, code: int
) -> None:
    run_id = new_run(holdfast.home, project)
    before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
    outcome = answered(holdfast, "reset", run_id, answer=answer)
    assert outcome.code == code
    assert f"1 branch: holdfast/{run_id}/main\n" in outcome.err
    assert "1 worktree: workspace\n" in outcome.err
    if code == 0:
        assert_gone(holdfast, project, run_id)
    else:
        assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before
        assert (code == 1) is (f"{run_id} was not changed" in outcome.err)


def test_it_tells_how_much_is_not_merged_before_it_asks(holdfast: Program, project: Project) -> None:
    run_id = unmerged_run(holdfast, project)
    told = answered(holdfast, "reset", run_id, answer="n\n").err
    assert "2 commits in no branch of yours; saved first, under refs/holdfast/salvage" in told


def test_where_nobody_can_answer_it_refuses(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    outcome = holdfast("reset", run_id, code=5)
    assert outcome.err.splitlines()[-1] == f"holdfast: not a terminal, so {run_id} was not removed; pass -y to confirm"
    assert project.branches() == [f"holdfast/{run_id}/main"]


def test_a_run_that_somebody_owns_is_not_touched_nor_asked_about(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    with owner_of(holdfast.home, run_id) as owner:
        before = project.footprint(), log_of(holdfast.home, run_id).read_bytes()
        for arguments in (("-y",), ()):
            assert f"is owned by pid {owner.pid}" in holdfast("reset", run_id, *arguments, code=5).complaint
        assert (project.footprint(), log_of(holdfast.home, run_id).read_bytes()) == before


def test_a_run_without_a_repository_goes(holdfast: Program) -> None:
    make_run(holdfast.home, "demo-abc234")
    told = answered(holdfast, "reset", "demo", answer="y\n")
    assert told.code == 0
    assert "no branches or worktrees in any repository" in told.err
    assert holdfast("ls").lines == []


def test_an_archived_run_goes(holdfast: Program, project: Project) -> None:
    run_id = unmerged_run(holdfast, project)
    saved = holdfast("archive", run_id, "--json").object["salvaged"]
    holdfast("reset", run_id, "-y")
    assert_gone(holdfast, project, run_id)
    assert project.salvage() == sorted(saved)


def test_when_the_repository_is_gone_work_is_not_thrown_away_unasked(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    shutil.rmtree(project.path)
    folder = workspace_of(holdfast.home, run_id)
    said = holdfast("reset", run_id, "-y", code=5).complaint
    assert folder in said
    assert "reset again" in said
    assert os.path.exists(folder)
    shutil.rmtree(folder)
    holdfast("reset", run_id, "-y")
    assert holdfast("ls").lines == []


def test_a_folder_that_is_no_worktree_is_not_deleted(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    write(workspace_of(holdfast.home, run_id, "mine"), {"precious.txt": "p\n"})
    said = holdfast("reset", run_id, "-y", code=5).complaint
    assert said.endswith("nothing was changed, move it away")
    assert os.path.exists(os.path.join(workspace_of(holdfast.home, run_id, "mine"), "precious.txt"))


def test_an_interrupted_run_goes(holdfast: Program, project: Project) -> None:
    run_id = new_run(holdfast.home, project)
    leave_interrupted(holdfast.home, run_id)
    holdfast("reset", run_id, "-y")
    assert_gone(holdfast, project, run_id)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.torture)])
def test_killed_at_any_step_it_is_finished_by_calling_it_again(
    holdfast: Program, project: Project, tmp_path: Path, stride: int
) -> None:
    """Before its first change of the repository, and after each: nothing is lost, and nothing is left."""
    before = project.footprint()
    git = DeadlyGit(tmp_path / "deadly")
    run_id = unmerged_run(holdfast, project)
    codes: list[int] = []
    for at, when in [(1, "before"), *((number, "after") for number in range(1, 40, stride))]:
        with holdfast.start("reset", run_id, "-y", env=git.environment(at, when)) as process:
            process.communicate()
        codes.append(process.returncode)
        if process.returncode != -signal.SIGKILL:
            break
        holdfast("reset", run_id, "-y")
        assert_gone(holdfast, project, run_id)
        assert saved_files(project) == {"a.txt", "T-1.txt", "draft.txt"}
        assert project.footprint().without_salvage() == before
        for ref in project.salvage():
            project.git("update-ref", "-d", ref)
        run_id = unmerged_run(holdfast, project)
    assert codes == [*[-signal.SIGKILL] * (len(codes) - 1), 0]
    assert len(codes) * stride > 8, git.calls


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.torture)])
def test_killed_at_any_step_the_only_copy_of_a_deleted_worktree_is_saved(
    holdfast: Program, project: Project, tmp_path: Path, stride: int
) -> None:
    """Its folder is gone, its branch lacks it: only the snapshot has it, until `reset` has saved that."""
    git = DeadlyGit(tmp_path / "deadly")
    codes: list[int] = []
    for number in range(1, 40, stride):
        run_id = run_with_a_deleted_worktree(holdfast, project)
        with holdfast.start("reset", run_id, "-y", env=git.environment(number, "after")) as process:
            process.communicate()
        codes.append(process.returncode)
        if process.returncode == -signal.SIGKILL:
            holdfast("reset", run_id, "-y")
        assert "only-here.txt" in saved_files(project)
        for ref in project.salvage():
            project.git("update-ref", "-d", ref)
        if process.returncode != -signal.SIGKILL:
            break
    assert codes == [*[-signal.SIGKILL] * (len(codes) - 1), 0]
    assert len(codes) * stride > 4, git.calls


def run_with_a_deleted_worktree(holdfast: Program, project: Project) -> str:
    run_id = new_run(holdfast.home, project)

    async def work() -> None:
        async with open_workspace(Home(holdfast.home), run_id, "run") as workspace:
            task = (await workspace.open_worktree("T-1")).path
            Path(task, "only-here.txt").write_text("only here\n", encoding="utf-8")
            await workspace.snapshot("T-1", "turn 1")
            shutil.rmtree(task)

    asyncio.run(work())
    return run_id


def test_killed_while_its_folder_is_deleted_no_half_run_is_left(holdfast: Program, project: Project) -> None:
    """What was moved to the trash is no run any more; whoever looks for ailments empties it."""
    run_id = new_run(holdfast.home, project)
    trash = os.path.join(holdfast.home, "trash", f"{run_id}.0")
    os.makedirs(os.path.dirname(trash))
    shutil.copytree(os.path.dirname(log_of(holdfast.home, run_id)), trash)
    holdfast("reset", run_id, "-y")
    assert holdfast("ls").lines == []
    assert os.path.exists(trash)
    assert holdfast("doctor", "--fix").lines[0].startswith("repaired")
    assert not os.path.exists(os.path.dirname(trash))


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_while_its_folder_is_moved_it_is_a_run_or_it_is_none(
    holdfast: Program, project: Project, side: str
) -> None:
    run_id = new_run(holdfast.home, project)
    env = failpoint_environment(project.path, f"run.discard.{side}:1")
    holdfast("reset", run_id, "-y", env=env, code=-signal.SIGKILL)
    assert len(holdfast("ls").lines) == (side == "before")
    if side == "before":
        holdfast("reset", run_id, "-y")
    else:
        assert holdfast("doctor", "--fix").lines[0].startswith("repaired")
    assert_gone(holdfast, project, run_id)


def test_after_sigkill_in_the_middle_of_git_the_locks_are_no_hindrance(holdfast: Program, project: Project) -> None:
    run_id = unmerged_run(holdfast, project)
    own = Path(project.git_dir, "worktrees", "workspace")
    for lock in (
        own / "index.lock",
        own / "HEAD.lock",
        Path(project.git_dir, "refs/heads/holdfast", run_id, "main.lock"),
    ):
        lock.touch()
    assert finished(holdfast.start("reset", run_id, "-y"))
    assert_gone(holdfast, project, run_id)
