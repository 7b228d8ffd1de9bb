"""A worktree's folder that somebody deleted: what git still has of it is saved before its entry goes."""

import asyncio
import os
import shutil

import pytest

from holdfast.core.events.effect import EffectIntended
from holdfast.engine.commands.archive import archive
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import open_workspace
from holdfast.git.effects import ProbeOutcome
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, git, half_deleted, put, working_on


async def test_what_was_staged_in_it_is_saved_when_it_is_removed(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open_worktree("T-1")).path
        put(task, {"staged.txt": "only in the index\n"})
        git(task, "add", "staged.txt")
        shutil.rmtree(task)
        saved = await w.remove_worktree("T-1")
        assert saved is not None
        assert git(repo.path, "show", f"{saved}:staged.txt") == "only in the index"


async def test_what_was_staged_in_it_is_saved_though_its_git_was_killed(repo: UserRepository, home: str) -> None:
    """The lock that a killed git left would keep any other from reading what it had staged."""
    async with working_on(repo, home) as w:
        task = (await w.open_worktree("T-1")).path
        put(task, {"staged.txt": "only in the index\n"})
        git(task, "add", "staged.txt")
        put(git(task, "rev-parse", "--absolute-git-dir"), {"index.lock": ""})
        shutil.rmtree(task)
        saved = await w.remove_worktree("T-1")
        assert saved is not None
        assert git(repo.path, "show", f"{saved}:staged.txt") == "only in the index"


async def test_locks_in_its_entry_go_when_the_run_is_opened(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        entry = git(task, "rev-parse", "--absolute-git-dir")
        put(entry, {"index.lock": "", "HEAD.lock": ""})
        shutil.rmtree(task)
    async with open_workspace(Home(home), run_id, "resume"):
        assert [name for name in os.listdir(entry) if name.endswith(".lock")] == []


async def test_commits_that_no_branch_has_are_saved_when_it_is_made_again(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open_worktree("T-1")).path
        git(task, "switch", "--quiet", "--detach")
        put(task, {"aside.txt": "aside\n"})
        git(task, "add", "--all")
        git(task, "commit", "--quiet", "--message=Aside")
        shutil.rmtree(task)
        await w.open_worktree("T-1")
        (saved,) = git(repo.path, "for-each-ref", "--format=%(refname)", w.place("T-1").salvage_refs).splitlines()
        assert git(repo.path, "show", f"{saved}:aside.txt") == "aside"


async def test_nothing_is_saved_of_what_its_branch_has(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open_worktree("T-1")).path
        put(task, {"a.txt": "done\n"})
        await w.commit("T-1", "Done")
        shutil.rmtree(task)
        assert await w.remove_worktree("T-1") is None


async def test_its_last_snapshot_outlives_the_run(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        for turn in ("first", "last"):
            put(task, {"notes.txt": f"{turn}\n"})
            await w.snapshot("T-1", turn)
        shutil.rmtree(task)
    (saved,) = await archive(Home(home), run_id)
    assert git(repo.path, "show", f"{saved}:notes.txt") == "last"


async def test_its_last_snapshot_outlives_the_run_whatever_the_clock_says(
    repo: UserRepository, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its branch has a commit that is younger by the clock, and older by the log."""
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"done.txt": "done\n"})
        await w.commit("T-1", "Done")
        put(task, {"notes.txt": "after it\n"})
        monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
        await w.snapshot("T-1", "turn 2")
        monkeypatch.delenv("GIT_COMMITTER_DATE")
        shutil.rmtree(task)
    saved = await archive(Home(home), run_id)
    assert "notes.txt" in [name for ref in saved for name in git(repo.path, "ls-tree", "--name-only", ref).split()]


@pytest.mark.parametrize("goes", ["removed", "made again", "merged and removed"])
async def test_its_last_snapshot_is_saved_when_it(repo: UserRepository, home: str, goes: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"notes.txt": "only in the snapshot\n"})
        await w.snapshot("T-1", "turn 1")
        shutil.rmtree(task)
        if goes == "made again":
            await w.open_worktree("T-1")
        elif goes == "merged and removed":
            await w.merge(["T-1"])
            await w.delete_worktree_and_branch("T-1")
        else:
            await w.remove_worktree("T-1")
    saved = await archive(Home(home), run_id)
    assert [git(repo.path, "show", f"{ref}:notes.txt") for ref in saved] == ["only in the snapshot"]


async def test_its_last_snapshot_is_saved_though_its_removal_was_cut_off_before_it_began(
    repo: UserRepository, home: str
) -> None:
    """Nothing of it is there, as after a removal."""
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"notes.txt": "only in the snapshot\n"})
        last = await w.snapshot("T-1", "turn 1")
        shutil.rmtree(task)
        git(repo.path, "worktree", "prune")
        about = {"task": "T-1", "folder": None, "last": last}
        await w.effects.run.append(EffectIntended(effect="e1", kind="worktree.remove", task="T-1", arguments=about))
    async with open_workspace(Home(home), run_id, "resume") as w:
        assert [(one.kind, one.probe.outcome) for one in w.settled_effects] == [("worktree.remove", ProbeOutcome.NO)]
    saved = await archive(Home(home), run_id)
    assert [git(repo.path, "show", f"{ref}:notes.txt") for ref in saved] == ["only in the snapshot"]


async def test_its_last_snapshot_is_known_until_it_could_be_saved(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"notes.txt": "only in the snapshot\n"})
        await w.snapshot("T-1", "turn 1")
        shutil.rmtree(task)
        git(repo.path, "worktree", "prune")
        put(repo.git_dir, {w.place("T-1").salvage_refs: "in the way"})
        with pytest.raises(GitFailed):
            await w.remove_worktree("T-1")
        os.unlink(os.path.join(repo.git_dir, w.place("T-1").salvage_refs))
    saved = await archive(Home(home), run_id)
    assert [git(repo.path, "show", f"{ref}:notes.txt") for ref in saved] == ["only in the snapshot"]


async def test_of_a_snapshot_with_which_it_is_made_again_nothing_is_saved(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open_worktree("T-1")).path
        put(task, {"notes.txt": "as it was\n"})
        kept = await w.snapshot("T-1", "turn 1")
        shutil.rmtree(task)
        await w.open_worktree("T-1", files=kept)
        assert git(repo.path, "for-each-ref", w.place("T-1").salvage_refs) == ""


@pytest.mark.parametrize("how", ["committed", "removed"])
async def test_a_snapshot_of_what_was_saved_after_it_goes_with_the_run(
    repo: UserRepository, home: str, how: str
) -> None:
    """The worktree stood there when it was committed, or removed: that is newer than any snapshot."""
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"draft.txt": "a draft\n"})
        await w.snapshot("T-1", "turn 1")
        os.unlink(os.path.join(task, "draft.txt"))
        put(task, {"notes.txt": "at last\n"})
        await (w.commit("T-1", "Done") if how == "committed" else w.remove_worktree("T-1"))
        if how == "committed":
            shutil.rmtree(task)
    saved = await archive(Home(home), run_id)
    assert {name for ref in saved for name in git(repo.path, "ls-tree", "--name-only", ref).split()} == {
        *git(repo.path, "ls-tree", "--name-only", "main").split(),
        "notes.txt",
    }


async def test_a_snapshot_that_git_has_no_more_is_no_hindrance(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"notes.txt": "gone\n"})
        await w.snapshot("T-1", "turn 1")
        shutil.rmtree(task)
        for ref in git(repo.path, "for-each-ref", "--format=%(refname)", w.place("T-1").snapshot_refs).splitlines():
            git(repo.path, "update-ref", "-d", ref)
        git(repo.path, "worktree", "prune")
        git(repo.path, "prune", "--expire=now")
        await w.open_worktree("T-1")
        await w.remove_worktree("T-1")
    assert await archive(Home(home), run_id) == []


async def test_what_was_taken_back_of_a_failed_attempt_outlives_the_run(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open_worktree("T-1")).path
        put(task, {"half.txt": "half\n"})
        await w.keep_failed("T-1", "a cap")
        await w.unwind_failed("T-1")
        shutil.rmtree(task)
        git(repo.path, "worktree", "prune")
    saved = await archive(Home(home), run_id)
    assert [git(repo.path, "show", f"{ref}:half.txt") for ref in saved] == ["half"]


async def test_several_are_removed_at_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        for number in range(4):
            put((await w.open_worktree(f"T-{number}")).path, {"new.txt": f"{number}\n"})
        saved = await asyncio.gather(*(w.remove_worktree(f"T-{number}") for number in range(4)))
        assert [git(repo.path, "show", f"{ref}:new.txt") for ref in saved] == ["0", "1", "2", "3"]
        assert os.listdir(os.path.join(w.effects.folder, "tasks")) == []
        assert half_deleted(w.effects.folder) == []


async def test_a_commit_on_a_branch_that_is_gone_is_refused_in_one_clear_line(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        git(repo.path, "update-ref", "-d", f"refs/heads/{task.branch}")
        with pytest.raises(Denied, match=r"the branch .* no longer exists; .*git branch .* COMMIT"):
            await w.commit("T-1", "New")
