"""What a killed git leaves in a repository, stage by stage: cleared when nobody is at work, and never before."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.core.work.names import worktree_names
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.leaf.errors import Denied
from holdfast.store.files.layout import run_folder
from tests.support.effect_child import INTENT
from tests.support.effect_crash import Play, Prepared
from tests.support.effect_scenes import edit
from tests.support.effect_stage import Stage
from tests.support.faulty_git import GIT
from tests.support.repository_fingerprint import assert_sound, users_own


async def interrupted(prepared: Prepared, kind: str) -> Play:
    """A play that was cut off right after the intent."""
    play = await prepared(kind)
    play.set_back()
    with play.orchestrator(stop=INTENT) as orchestrator:
        assert orchestrator.hear() == INTENT
        orchestrator.kill()
    return play


def own_dir(stage: Stage, run_id: str, task: str = "T-1") -> str:
    folder = os.path.join(run_folder(stage.home, run_id), worktree_names(run_id, task).folder)
    return stage.git("rev-parse", "--absolute-git-dir", at=folder).strip()


def locks_of_a_commit(stage: Stage, run_id: str) -> list[str]:
    own = own_dir(stage, run_id)
    branch = os.path.join(stage.git_dir, "refs", "heads", f"{worktree_names(run_id, 'T-1').branch}.lock")
    return [os.path.join(own, "index.lock"), os.path.join(own, "HEAD.lock"), branch]


async def test_locks_that_nobody_holds_are_cleared(prepared: Prepared) -> None:
    play = await interrupted(prepared, "commit")
    stage = play.stage
    for lock in locks_of_a_commit(stage, play.run_id):
        stage.write(lock, "")
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_a_lock_that_a_process_holds_open_is_refused_with_a_clear_line(prepared: Prepared) -> None:
    play = await interrupted(prepared, "commit")
    stage = play.stage
    for lock in locks_of_a_commit(stage, play.run_id):
        with (
            open(lock, "w", encoding="utf-8"),
            pytest.raises(Denied, match=r"git is running in .*tasks/T-1") as refusal,
        ):
            await play.finish()
        assert lock in str(refusal.value)
        assert os.path.exists(lock)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


@contextmanager
def users_commit_in_a_hook(stage: Stage, folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """The user's own `git commit -a` in a task's worktree, which sits in its hook with the index locked, and closed."""
    with stage.held("pre-commit") as held:
        with subprocess.Popen([GIT, "commit", "-qam", "Mine"], cwd=folder) as running:
            try:
                held.wait_for_it()
                yield running
            finally:
                running.kill()
        held.let_go()


async def test_a_lock_that_git_closed_while_it_sits_in_a_hook_is_refused_too(prepared: Prepared) -> None:
    play = await interrupted(prepared, "commit")
    stage = play.stage
    folder = os.path.join(run_folder(stage.home, play.run_id), "tasks/T-1")
    lock = os.path.join(own_dir(stage, play.run_id), "index.lock")
    with users_commit_in_a_hook(stage, folder) as commit:
        assert os.path.exists(lock)
        with pytest.raises(Denied, match=r"git is running in .*tasks/T-1 .*index\.lock is held"):
            await play.finish()
        assert commit.poll() is None, "a git that is not of the run is not ended"
        assert os.path.exists(lock)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


# Half-made worktrees: what `git worktree add` has written when it is killed, in the order in which it writes.

ENTRY = (
    ("locked", "initializing\n"),
    ("gitdir", "{folder}/.git\n"),
    ("HEAD", "0000000000000000000000000000000000000000\n"),
    ("commondir", "../..\n"),
)


def half_made(stage: Stage, run_id: str, files: int, *, empty: bool, folder: bool) -> None:
    entry = os.path.join(stage.git_dir, "worktrees", "T-1")
    os.makedirs(entry)
    path = os.path.join(run_folder(stage.home, run_id), "tasks", "T-1")
    for number, (name, content) in enumerate(ENTRY[:files], start=1):
        last = empty and number == files
        stage.write(os.path.join(entry, name), "" if last else content.format(folder=path))
    if folder:
        stage.write(os.path.join(path, ".git"), f"gitdir: {entry}\n")
        stage.write(os.path.join(path, "a.txt"), "1\n2")
    if files:
        stage.write(os.path.join(run_folder(stage.home, run_id), "tasks", ".T-1.making"), "")


@pytest.mark.parametrize("folder", [False, True], ids=["no folder", "half a folder"])
async def test_a_worktree_that_was_half_made_is_made_anew(prepared: Prepared, folder: bool) -> None:
    play = await interrupted(prepared, "worktree.make")
    stage = play.stage
    crashed = f"{stage.folder}.crashed"
    stage.copy_to(crashed)
    for files in range(2 if folder else 0, len(ENTRY) + 1):
        for empty in (False, True) if files else (False,):
            stage.set_back(crashed)
            half_made(stage, play.run_id, files, empty=empty, folder=folder)
            await play.finish()
            await play.must_be_as_if_nothing_had_been()


async def test_what_somebody_put_into_a_half_made_worktree_is_saved_before_it_is_made_anew(prepared: Prepared) -> None:
    play = await prepared("worktree.make")
    stage = play.stage
    play.set_back()
    with stage.held("post-checkout") as held, play.orchestrator() as orchestrator:
        assert held.wait(orchestrator)
        orchestrator.kill()
        edit(os.path.join(run_folder(stage.home, play.run_id), "tasks/T-1"), "mine.txt", "by hand, after the crash\n")
        async with play.reopened() as workspace:
            (settled,) = workspace.settled_effects
    assert settled.salvaged is not None
    assert "by hand" in stage.git("show", f"{settled.salvaged}:mine.txt")
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_a_worktree_of_the_users_that_is_half_made_is_not_touched(prepared: Prepared) -> None:
    play = await interrupted(prepared, "worktree.make")
    stage = play.stage
    entry = os.path.join(stage.git_dir, "worktrees", "theirs")
    stage.write(os.path.join(entry, "locked"), "initializing\n")
    await play.finish()
    assert os.path.exists(os.path.join(entry, "locked"))


async def test_a_deleted_worktree_is_made_again_with_all_that_was_committed(prepared: Prepared) -> None:
    play = await prepared("merge")
    stage = play.stage
    play.set_back()
    before = users_own(stage)
    path = os.path.join(run_folder(stage.home, play.run_id), "tasks", "T-1")
    for meanwhile in ((), ("worktree", "prune"), ("gc", "--quiet", "--prune=now"), ("pack-refs", "--all")):
        shutil.rmtree(path)
        if meanwhile:
            stage.git(*meanwhile)
        async with open_workspace(Home(stage.home), play.run_id, "resume") as workspace:
            assert (await workspace.open_worktree("T-1")).path == path
    await play.finish()
    await play.must_be_as_if_nothing_had_been()
    assert users_own(stage) == before


async def test_a_run_that_was_cut_off_before_it_had_a_branch_gets_one(stage: Stage) -> None:
    """Killed in `create_run`: the intent of its worktree is all there is."""
    stage.set_up()
    stage.write("the repo/.git/refs/heads/holdfast", stage.git("rev-parse", "main"))  # in the way of holdfast/…
    with pytest.raises(Exception, match="failed"):
        await create_run(Home(stage.home), NewRun("Try", stage.repo, slug="try"))
    os.unlink(os.path.join(stage.git_dir, "refs/heads/holdfast"))
    (run_id,) = os.listdir(os.path.join(stage.home, "runs"))
    async with open_workspace(Home(stage.home), run_id, "resume") as workspace:
        worktree = await workspace.open_worktree()
        edit(worktree.path, "new.txt", "new\n")
        assert await workspace.commit(None, "First") is not None
    await assert_sound(stage, run_id)
