"""Each row of the two tables on real git: what is acted on, what is left alone, and that nothing is lost by it."""

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from holdfast.core.events.conversation import ConversationOpened, TurnStarted
from holdfast.core.events.effect import EffectIntended
from holdfast.core.events.task import TaskStarted
from holdfast.core.events.work import WORKTREE_LOST
from holdfast.core.task_state import TaskStage
from holdfast.core.work.names import worktree_names
from holdfast.core.work.reconciliation import Finding, Remedy
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.reconcile import observe, reconcile_workspace
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.git.effects import CommitTask, ProbeOutcome
from holdfast.git.repository import Repository
from holdfast.store.base import Message
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from tests.support.projects import Project, task_begun, task_merged, workspace_of, write

AS_IT_SHOULD_BE = {Remedy.NONE, Remedy.RESUME_ON_BRANCH, Remedy.RESUME_IN_WORKTREE}


@pytest.fixture
async def run_id(home: str, project: Project) -> str:
    return await create_run(Home(home), NewRun("Add OAuth login", project.path))


async def set_right(home: str, run_id: str) -> dict[str, Remedy]:
    """What was found and acted on; not what is as it should be."""
    async with open_workspace(Home(home), run_id, "doctor") as workspace:
        return remedies(await reconcile_workspace(workspace))


def remedies(findings: list[Finding]) -> dict[str, Remedy]:
    return {finding.subject: finding.remedy for finding in findings if finding.remedy not in AS_IT_SHOULD_BE}


async def assert_settled(home: str, project: Project, run_id: str, *warned: str) -> None:
    """A second time there is nothing to act on, and nothing is changed."""
    before = project.footprint()
    found = await set_right(home, run_id)
    assert found == dict.fromkeys(warned, Remedy.WARN)
    assert project.footprint() == before
    assert (await view_run(Home(home), run_id)).state.effects == {}


async def test_work_in_progress_goes_on_where_it_is(home: str, project: Project, run_id: str) -> None:
    await task_begun(home, run_id, "T-1")
    before = project.footprint()
    assert await set_right(home, run_id) == {}
    assert project.footprint() == before


async def test_a_merged_branch_and_its_worktree_go(home: str, project: Project, run_id: str) -> None:
    await task_merged(home, run_id, "T-1")
    branch = worktree_names(run_id, "T-1").branch
    assert await set_right(home, run_id) == {branch: Remedy.DELETE_BRANCH, "tasks/T-1": Remedy.REMOVE_WORKTREE}
    assert project.branches() == [worktree_names(run_id).branch]
    assert not os.path.exists(workspace_of(home, run_id, "T-1"))
    assert project.salvage() == []
    await assert_settled(home, project, run_id)


async def test_what_is_only_in_a_merged_worktree_is_saved_before_it_goes(
    home: str, project: Project, run_id: str
) -> None:
    await task_merged(home, run_id, "T-1")
    write(workspace_of(home, run_id, "T-1"), {"later.txt": "later\n"})
    await set_right(home, run_id)
    (saved,) = project.salvage()
    assert saved.startswith(f"refs/holdfast/salvage/{run_id}/T-1/")
    assert project.show(f"{saved}:later.txt") == "later"
    await assert_settled(home, project, run_id)


async def test_a_merged_branch_that_went_on_is_left_alone(home: str, project: Project, run_id: str) -> None:
    await task_merged(home, run_id, "T-1")
    place = worktree_names(run_id, "T-1")
    folder = workspace_of(home, run_id, "T-1")
    write(folder, {"more.txt": "more\n"})
    project.git("add", "--all", at=folder)
    project.git("commit", "--quiet", "--message=More", at=folder)
    more = project.tip(place.branch)
    found = await set_right(home, run_id)
    assert found[place.branch] is Remedy.WARN
    assert project.tip(place.branch) == more


async def test_a_lost_branch_comes_back_at_the_commit_that_its_worktree_remembers(
    home: str, project: Project, run_id: str
) -> None:
    folder = await task_begun(home, run_id, "T-1")
    write(folder, {"uncommitted.txt": "u\n"})
    branch = worktree_names(run_id, "T-1").branch
    was = project.tip(branch)
    project.git("update-ref", "-d", f"refs/heads/{branch}")
    assert await set_right(home, run_id) == {branch: Remedy.RECREATE_BRANCH}
    assert project.tip(branch) == was
    assert project.git("status", "--porcelain", at=folder) == "?? uncommitted.txt"
    await assert_settled(home, project, run_id)


async def test_the_runs_own_lost_branch_comes_back_too(home: str, project: Project, run_id: str) -> None:
    await task_merged(home, run_id, "T-1")
    branch = worktree_names(run_id).branch
    was = project.tip(branch)
    project.git("update-ref", "-d", f"refs/heads/{branch}")
    await set_right(home, run_id)
    assert project.tip(branch) == was


async def test_the_runs_own_lost_branch_comes_back_with_what_was_merged_though_its_worktree_is_gone_too(
    home: str, project: Project, run_id: str
) -> None:
    await task_merged(home, run_id, "T-1")
    branch = worktree_names(run_id).branch
    was = project.tip(branch)
    project.git("worktree", "remove", "--force", workspace_of(home, run_id))
    project.git("branch", "--quiet", "-D", branch)
    await set_right(home, run_id)
    assert project.tip(branch) == was


async def test_what_could_not_be_told_for_want_of_a_branch_is_told_when_that_is_back(
    home: str, project: Project, run_id: str
) -> None:
    await task_begun(home, run_id, "T-1")
    branch = worktree_names(run_id, "T-1").branch
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        effect = CommitTask(task="T-1", base=project.git("rev-parse", "main"), message="One")
        intended = EffectIntended(effect="0" * 16, kind="commit", task="T-1", arguments=msgspec.to_builtins(effect))
        await workspace.effects.run.append(intended)
    project.git("update-ref", "-d", f"refs/heads/{branch}")
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        assert [one.probe.reason for one in workspace.settled_effects] == [f"the branch {branch} does not exist"]
        await reconcile_workspace(workspace)
        assert [one.probe.outcome for one in workspace.settled_effects] == [ProbeOutcome.NO]
    await assert_settled(home, project, run_id)


def remove(project: Project, home: str, run_id: str, task: str) -> None:
    """Its worktree and its branch."""
    project.git("worktree", "remove", "--force", workspace_of(home, run_id, task))
    project.git("branch", "--quiet", "-D", worktree_names(run_id, task).branch)


def collect(project: Project) -> None:
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "--quiet", "--prune=now")


async def test_a_lost_branch_comes_back_with_what_was_committed_though_its_worktree_is_gone_too(
    home: str, project: Project, run_id: str
) -> None:
    folder = await task_begun(home, run_id, "T-1")
    branch = worktree_names(run_id, "T-1").branch
    was = project.tip(branch)
    remove(project, home, run_id, "T-1")
    found = await set_right(home, run_id)
    assert (found[branch], found["tasks/T-1"]) == (Remedy.RECREATE_BRANCH, Remedy.RECREATE_WORKTREE)
    assert project.tip(branch) == was
    assert project.git("status", "--porcelain", at=folder) == ""
    await assert_settled(home, project, run_id)


async def test_a_lost_branch_on_which_nothing_was_committed_begins_where_it_began(
    home: str, project: Project, run_id: str
) -> None:
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await workspace.open_worktree("T-1")
    branch = worktree_names(run_id, "T-1").branch
    began = project.tip(branch)
    await task_merged(home, run_id, "T-0")
    remove(project, home, run_id, "T-1")
    await set_right(home, run_id)
    assert project.tip(branch) == began != project.tip(worktree_names(run_id).branch)


async def test_a_commit_that_git_has_no_more_is_told_of_and_done_again(
    home: str, project: Project, run_id: str
) -> None:
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await workspace.effects.run.append(TaskStarted(task_id="T-1"))
    await task_begun(home, run_id, "T-1")
    branch = worktree_names(run_id, "T-1").branch
    was = str(project.tip(branch))
    remove(project, home, run_id, "T-1")
    collect(project)
    await set_right(home, run_id)
    state = (await view_run(Home(home), run_id)).state
    assert project.tip(branch) == state.branches[branch].base
    with open(os.path.join(run_folder(home, run_id), "events.jsonl"), encoding="utf-8") as log:
        assert f"{branch} was at {was[:12]}, which git no longer has" in log.read()
    task = state.tasks["T-1"]
    assert (task.stage, task.iteration, task.reason) == (TaskStage.WORK, 2, WORKTREE_LOST)


CASE = {"role": "worker", "conversation": "w", "signal": {"summary": "done"}}


@pytest.mark.parametrize("kind", ["signal.submit_case", "user"])
async def test_a_case_that_nobody_has_read_does_not_stand_for_files_that_are_gone(
    home: str, project: Project, run_id: str, kind: str
) -> None:
    """Whoever was cut off before it reported goes on, and looks first."""
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        begun = (
            TaskStarted(task_id="T-1"),
            ConversationOpened(conversation="w", role="worker", task="T-1"),
            TurnStarted(conversation="w", turn="t"),
        )
        await workspace.effects.run.append(*begun)
        write((await workspace.open_worktree("T-1")).path, {"a.txt": "one\n"})
    body = msgspec.Raw(msgspec.json.encode(CASE))
    await FileStore(home).inbox(run_id).put(Message(id="m", kind=kind, sender="w", body=body))
    shutil.rmtree(workspace_of(home, run_id, "T-1"))
    await set_right(home, run_id)
    task = (await view_run(Home(home), run_id)).state.tasks["T-1"]
    assert task.reason == (WORKTREE_LOST if kind != "user" else None)


@pytest.mark.parametrize("pruned", [False, True], ids=["entry-left", "entry-pruned"])
async def test_a_deleted_folder_is_made_again_on_its_branch(
    home: str, project: Project, run_id: str, pruned: bool
) -> None:
    folder = await task_begun(home, run_id, "T-1")
    was = project.tip(worktree_names(run_id, "T-1").branch)
    shutil.rmtree(folder)
    if pruned:
        project.git("worktree", "prune")
    assert await set_right(home, run_id) == {"tasks/T-1": Remedy.RECREATE_WORKTREE}
    assert project.git("rev-parse", "HEAD", at=folder) == was
    assert Path(folder, "T-1.txt").read_text() == "T-1\n"
    await assert_settled(home, project, run_id)


async def test_an_orphan_branch_is_left_alone(home: str, project: Project, run_id: str) -> None:
    orphan = f"holdfast/{run_id}/nobodys"
    project.git("branch", orphan)
    assert await set_right(home, run_id) == {orphan: Remedy.WARN}
    assert orphan in project.branches()
    await assert_settled(home, project, run_id, orphan)


async def test_an_orphan_worktree_is_left_alone(home: str, project: Project, run_id: str) -> None:
    folder = workspace_of(home, run_id, "nobodys")
    project.git("worktree", "add", "--quiet", "--detach", folder)
    assert await set_right(home, run_id) == {"tasks/nobodys": Remedy.WARN}
    assert os.path.isdir(folder)
    await assert_settled(home, project, run_id, "tasks/nobodys")


async def test_a_worktree_that_lost_its_git_is_linked_again(home: str, project: Project, run_id: str) -> None:
    folder = await task_begun(home, run_id, "T-1")
    Path(folder, "T-1.txt").write_text("more\n")
    os.unlink(os.path.join(folder, ".git"))
    assert await set_right(home, run_id) == {"tasks/T-1": Remedy.LINK_WORKTREE}
    assert Path(folder, "T-1.txt").read_text() == "more\n"
    assert project.git("status", "--porcelain", at=folder) == "M T-1.txt"
    await assert_settled(home, project, run_id)


async def test_a_folder_that_took_the_place_of_a_worktree_is_saved_and_the_worktree_made_again(
    home: str, project: Project, run_id: str
) -> None:
    folder = await task_begun(home, run_id, "T-1")
    shutil.rmtree(folder)
    os.mkdir(folder)
    Path(folder, "new.txt").write_text("new\n")
    assert await set_right(home, run_id) == {"tasks/T-1": Remedy.LINK_WORKTREE}
    assert sorted(os.listdir(folder)) == [".git", "T-1.txt", "a.txt"]
    (saved,) = project.salvage()
    assert project.show(f"{saved}:new.txt") == "new"
    await assert_settled(home, project, run_id)


@pytest.mark.parametrize("switch", [("--detach",), ("--create", "mine")], ids=["no-branch", "another"])
async def test_a_worktree_that_somebody_switched_is_brought_back_by_its_task_and_else_left_alone(
    home: str, project: Project, run_id: str, switch: tuple[str, ...]
) -> None:
    for task in (None, "T-1"):
        folder = await task_begun(home, run_id, task) if task is not None else workspace_of(home, run_id)
        project.git("switch", "--quiet", *switch, at=folder)
        assert await set_right(home, run_id) == {"workspace": Remedy.WARN}
        switch = (*switch[:-1], f"{switch[-1]}-2") if len(switch) > 1 else switch
    await assert_settled(home, project, run_id, "workspace")


async def test_other_peoples_branches_and_worktrees_are_not_looked_at(
    home: str, project: Project, run_id: str, tmp_path: Path
) -> None:
    project.git("branch", "holdfast/somebody-abc234/main")
    project.git("worktree", "add", "--quiet", "-b", "theirs", str(tmp_path / "theirs"))
    assert await set_right(home, run_id) == {}


async def test_a_look_takes_as_many_git_processes_for_many_worktrees_as_for_one(
    home: str, project: Project, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def processes(name: str) -> int:
        trace = tmp_path / name
        monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
        await observe(Repository(project.git_dir), run_id, run_folder(home, run_id))
        monkeypatch.delenv("GIT_TRACE2_EVENT")
        events = [json.loads(line)["event"] for line in trace.read_text().splitlines()]
        return events.count("start")

    assert await processes("one") == 2
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        for number in range(8):
            await workspace.open_worktree(f"T-{number}")
        assert await processes("many") == 2, "none is ahead of the run's branch"
        for number in (1, 2):
            write(workspace.worktree(f"T-{number}").path, {"new.txt": str(number)})
            await workspace.commit(f"T-{number}", "Work")
    assert await processes("ahead") == 3
