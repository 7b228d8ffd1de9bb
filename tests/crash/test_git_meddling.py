"""Between a crash and the resume the user goes on: they clean up, move, rebase, delete. Theirs stays theirs."""

import os
import shutil

import pytest

from holdfast.core.work.names import worktree_names
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import MergeResult, open_workspace
from holdfast.git.effects import ProbeOutcome
from holdfast.git.worktrees.worktree import NotOurWorktree
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.store.files.layout import run_folder
from tests.support.effect_child import EFFECT, INTENT
from tests.support.effect_crash import Play, Prepared
from tests.support.effect_scenes import KINDS, edit, scene_of, some
from tests.support.effect_stage import Stage
from tests.support.repository_fingerprint import files

CLEANING = (("gc", "--quiet", "--prune=now"), ("worktree", "prune"), ("pack-refs", "--all"), ("repack", "-adq"))
CLEANABLE = [kind for kind in KINDS if "deleted" not in kind]  # what was staged there goes with git's entry of it


async def crashed(prepared: Prepared, kind: str, point: str) -> Play:
    play = await prepared(kind)
    play.set_back()
    with play.orchestrator(stop=point) as orchestrator:
        assert orchestrator.hear() == point
        orchestrator.kill()
    return play


def clean_up(stage: Stage) -> None:
    for command in CLEANING:
        stage.git(*command)


@pytest.mark.parametrize("point", [INTENT, pytest.param(EFFECT, marks=pytest.mark.torture)])
@pytest.mark.parametrize("kind", some(CLEANABLE, ("worktree.remove", "commit", "merge.conflicts", "snapshot.restore")))
async def test_the_user_may_clean_up_between_a_crash_and_the_resume(prepared: Prepared, kind: str, point: str) -> None:
    play = await crashed(prepared, kind, point)
    stage = play.stage
    clean_up(stage)
    async with play.reopened():
        pass
    clean_up(stage)
    await play.finish()
    clean_up(stage)
    await play.must_be_as_if_nothing_had_been()


async def test_a_moved_repository_is_named_and_nothing_is_done(prepared: Prepared) -> None:
    play = await crashed(prepared, "commit", INTENT)
    stage = play.stage
    os.rename(stage.repo, f"{stage.repo} moved")
    with pytest.raises(BadInput, match=r"is not at .*the repo/.git any more"):
        await play.finish()
    os.rename(f"{stage.repo} moved", stage.repo)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_a_moved_home_is_told_by_its_worktrees_and_nothing_is_written_there(prepared: Prepared) -> None:
    play = await crashed(prepared, "commit", INTENT)
    stage = play.stage
    home = stage.home
    stage.home = f"{home} moved"
    os.rename(home, stage.home)
    folder = os.path.join(run_folder(stage.home, play.run_id), "tasks/T-1")
    before = files(folder)
    with pytest.raises(NotOurWorktree, match="was moved or copied"):
        await play.finish()
    assert files(folder) == before
    os.rename(stage.home, home)
    stage.home = home
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_a_branch_that_the_user_deleted_is_unknown_and_comes_back_with_it(prepared: Prepared) -> None:
    play = await crashed(prepared, "commit", INTENT)
    stage = play.stage
    branch = f"refs/heads/{worktree_names(play.run_id, 'T-1').branch}"
    at = stage.git("rev-parse", branch).strip()
    stage.git("update-ref", "-d", branch)
    async with play.reopened() as workspace:
        assert workspace.settled_effects[0].probe.outcome is ProbeOutcome.UNKNOWN
        with pytest.raises(HoldfastError):
            await scene_of("commit").act(workspace)
    stage.git("update-ref", branch, at)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_a_branch_that_moved_on_is_not_deleted(prepared: Prepared) -> None:
    play = await crashed(prepared, "branch.delete", INTENT)
    stage = play.stage
    branch = f"refs/heads/{worktree_names(play.run_id, 'T-1').branch}"
    moved = stage.git("commit-tree", "-p", branch, "-m", "Mine", f"{branch}^{{tree}}").strip()
    async with play.reopened() as workspace:
        assert workspace.settled_effects[0].probe.outcome is ProbeOutcome.NO
    stage.git("update-ref", branch, moved)
    async with play.reopened() as workspace:
        await scene_of("branch.delete").act(workspace)
    assert moved in stage.git("for-each-ref", "--format=%(objectname)", "refs/holdfast/salvage/")


async def test_a_target_that_the_user_moved_meanwhile_keeps_what_they_did(prepared: Prepared) -> None:
    play = await crashed(prepared, "merge.into", INTENT)
    stage = play.stage
    moved = stage.git("commit-tree", "-p", "side", "-m", "Mine", "side^{tree}").strip()
    stage.git("update-ref", "refs/heads/side", moved)
    await play.finish()
    assert stage.git("merge-base", "--is-ancestor", moved, "side") == ""
    assert await play.happened() == 1


async def test_a_target_that_is_checked_out_now_moves_with_its_files(prepared: Prepared) -> None:
    play = await crashed(prepared, "merge.into", INTENT)
    stage, mine = play.stage, os.path.join(play.stage.folder, "mine")
    at = stage.git("rev-parse", "side")
    stage.git("worktree", "add", "--quiet", mine, "side")
    await play.finish()
    assert stage.git("rev-parse", "side") != at
    assert stage.git("status", "--porcelain", at=mine) == ""
    assert await play.happened() == 1


async def test_a_commit_that_the_user_rebased_away_is_made_again(prepared: Prepared) -> None:
    """The log cannot know it, and the work is in the worktree: what the probe looks at is the branch."""
    play = await crashed(prepared, "commit", EFFECT)
    stage = play.stage
    folder = os.path.join(run_folder(stage.home, play.run_id), "tasks/T-1")
    stage.git("reset", "--quiet", "--soft", "HEAD^", at=folder)
    await play.finish()
    assert await play.happened() == 1
    assert stage.git("status", "--porcelain", at=folder) == ""


@pytest.mark.parametrize(("kind", "worktree"), [("merge.conflicts", "tasks/T-2"), ("merge", "workspace")])
async def test_edits_in_a_half_merged_worktree_are_saved_before_it_is_set_back(
    prepared: Prepared, kind: str, worktree: str
) -> None:
    play = await prepared(kind)
    stage = play.stage
    play.set_back()
    with stage.held("smudge") as held, play.orchestrator() as orchestrator:
        assert held.wait(orchestrator)
        orchestrator.kill()
        folder = os.path.join(run_folder(stage.home, play.run_id), worktree)
        edit(folder, "mine.txt", "by hand, after the crash\n")
        await play.finish()
    await play.must_be_as_if_nothing_had_been()
    kept = stage.git("for-each-ref", "--format=%(refname)", "refs/holdfast/salvage/").split()
    assert any("by hand" in show(stage, f"{ref}:mine.txt") for ref in kept)


def show(stage: Stage, name: str) -> str:
    ref, _, path = name.partition(":")
    return stage.git("show", name) if path in stage.git("ls-tree", "--name-only", ref).split("\n") else ""


async def test_a_worktree_deleted_by_the_user_leaves_the_others_in_peace(prepared: Prepared) -> None:
    play = await crashed(prepared, "merge.conflicts", INTENT)
    stage = play.stage
    shutil.rmtree(os.path.join(run_folder(stage.home, play.run_id), "tasks/T-2"))
    async with play.reopened() as workspace:
        assert workspace.settled_effects[0].probe.outcome is ProbeOutcome.UNKNOWN
        await workspace.open_worktree("T-2")
    async with open_workspace(Home(stage.home), play.run_id, "resume") as workspace:
        assert [settled.probe.outcome for settled in workspace.settled_effects] == [ProbeOutcome.NO]
        assert [merge.conflicts for merge in await workspace.merge(["T-2"])] == [("a.txt",)]


async def test_conflicts_that_are_resolved_and_not_committed_do_not_merge_for_ever(prepared: Prepared) -> None:
    play = await prepared("merge commit")
    stage = play.stage
    play.set_back()
    folder = os.path.join(run_folder(stage.home, play.run_id), "tasks/T-2")
    stage.git("add", "--all", at=folder)
    async with play.reopened() as workspace:
        (merge,) = await workspace.merge(["T-2"])
        assert merge == MergeResult("T-2", None)
        await workspace.commit("T-2", "Resolve")
        (merge,) = await workspace.merge(["T-2"])
        assert merge.commit is not None


async def test_of_two_placeholders_none_is_left(prepared: Prepared) -> None:
    """Two failures in a row: both are taken back, though it is killed over it."""
    play = await prepared("commit.unwind")
    stage = play.stage
    play.set_back()
    folder = os.path.join(run_folder(stage.home, play.run_id), "tasks/T-1")
    edit(folder, "again.txt", "failed again\n")
    async with play.reopened() as workspace:
        await workspace.keep_failed("T-1", "again")
    with play.orchestrator(stop=EFFECT) as orchestrator:
        assert orchestrator.hear() == EFFECT
        orchestrator.kill()
    async with play.reopened() as workspace:
        assert workspace.settled_effects[0].probe.outcome is ProbeOutcome.YES
    assert "FAILED" not in stage.git("log", "--format=%s", at=folder)
    assert {"again.txt", "own.txt", "staged.txt"} <= set(os.listdir(folder))


async def test_a_snapshot_taken_under_an_old_name_is_not_taken_for_the_old_one(prepared: Prepared) -> None:
    play = await prepared("snapshot.restore")
    play.set_back()
    async with play.reopened() as workspace:
        old = await workspace.repository.commit_of(f"{workspace.place('T-1').snapshot_refs}/turn-1")
    with play.orchestrator_of("snapshot.take", stop=INTENT) as orchestrator:
        assert orchestrator.hear() == INTENT
        orchestrator.kill()
    async with play.reopened() as workspace:
        assert workspace.settled_effects[0].probe.outcome is ProbeOutcome.NO
        assert await workspace.snapshot("T-1", "turn 1") != old
