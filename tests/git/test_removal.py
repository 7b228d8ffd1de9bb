"""A worktree that goes away: removed by us or deleted by somebody, what was in it is saved first."""

import os
import shutil
from collections.abc import Callable

import pytest

from holdfast.git.effects import REMOVED_SUFFIX, TRASH_PREFIX, MakeWorktree, ProbeOutcome, RemoveWorktree, worktrees
from holdfast.git.process import GitKilled
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import Denied
from tests.git.probing import probe, site
from tests.support.repositories import UserRepository, git, half_deleted, put, text, working_on


def aside(task: Worktree) -> str:
    folder, name = os.path.split(task.path)
    return os.path.join(folder, f".{name}{REMOVED_SUFFIX}")


@pytest.mark.parametrize("next_time", [False, True])
async def test_a_removal_that_was_cut_off_is_brought_to_its_end(
    repo: UserRepository, home: str, next_time: bool
) -> None:
    """By whoever settles it, or by the next removal: with what came into the folder when it was saved already."""
    async with working_on(repo, home) as w:
        task, remove = await w.open_worktree("T-1"), RemoveWorktree(task="T-1")
        put(task.path, {"new.txt": "new\n"})
        await remove._save(site(w), task)
        os.rename(task.path, aside(task))
        put(aside(task), {"late.txt": "late\n"})
        assert await probe(w, remove) is ProbeOutcome.NO
        if next_time:
            saved = await w.remove_worktree("T-1")
        else:
            saved = await remove.repair(site(w))
        assert await probe(w, remove) is ProbeOutcome.YES
        assert half_deleted(w.effects.folder) == []
        assert git(repo.path, "show", f"{saved}:new.txt") == "new"
        assert git(repo.path, "show", f"{saved}:late.txt") == "late"


@pytest.mark.parametrize("dropped", [False, True])
async def test_what_is_in_the_trash_was_saved(repo: UserRepository, home: str, dropped: bool) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open_worktree("T-1"), RemoveWorktree(task="T-1")
        own = task.must_be_ours()
        os.rename(task.path, os.path.join(w.effects.folder, TRASH_PREFIX + site(w).effect_id))
        if dropped:
            shutil.rmtree(own)
        await remove.repair(site(w))
        assert await probe(w, remove) is ProbeOutcome.YES
        assert half_deleted(w.effects.folder) == []


@pytest.mark.parametrize("why", ["a repository", "an unknown folder", "a filter"])
async def test_what_cannot_be_saved_is_not_removed_but_put_back(repo: UserRepository, home: str, why: str) -> None:
    """It came into the folder while that was being moved aside; or somebody pruned what git knew of it."""
    async with working_on(repo, home) as w:
        task, remove = await w.open_worktree("T-1"), RemoveWorktree(task="T-1")
        own = task.must_be_ours()
        os.rename(task.path, aside(task))
        put(aside(task), {"inner/a.txt": "a\n"})
        match why:
            case "a repository":
                git(os.path.join(aside(task), "inner"), "init", "--quiet")
            case "an unknown folder":
                shutil.rmtree(own)
            case "a filter":
                put(aside(task), {".gitattributes": "*.txt filter=broken\n"})
                repo.git("config", "filter.broken.clean", "false")
                repo.git("config", "filter.broken.required", "true")
        with pytest.raises(Denied) as told:
            await remove.repair(site(w))
        assert REMOVED_SUFFIX not in str(told.value)
        assert text(task.path, "inner/a.txt") == "a\n"
        assert half_deleted(w.effects.folder) == []
        assert await probe(w, remove) is ProbeOutcome.NO
        shutil.rmtree(task.path)
        await remove.perform(site(w))
        assert await probe(w, remove) is ProbeOutcome.YES


@pytest.mark.parametrize("submodules", [False, True])
async def test_where_git_is_killed_over_what_came_late_it_is_looked_at_again(
    repo: UserRepository, home: str, monkeypatch: pytest.MonkeyPatch, submodules: bool
) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open_worktree("T-1"), RemoveWorktree(task="T-1")
        os.rename(task.path, aside(task))
        put(aside(task), {"late.txt": "late\n", **({".gitmodules": ""} if submodules else {})})
        with monkeypatch.context() as killing:
            killing.setattr(worktrees, "save", killed)
            with pytest.raises(GitKilled):
                await remove.repair(site(w))
        assert half_deleted(w.effects.folder) == [aside(task)]
        saved = await remove.repair(site(w))
        assert git(repo.path, "show", f"{saved}:late.txt") == "late"
        assert half_deleted(w.effects.folder) == []


async def killed(*_: object) -> None:
    raise GitKilled("add", -9, "")


async def test_what_is_aside_while_its_place_is_taken_is_told_of_by_its_name(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open_worktree("T-1"), RemoveWorktree(task="T-1")
        shutil.rmtree(task.must_be_ours())
        os.rename(task.path, aside(task))
        put(task.path, {"theirs.txt": "theirs\n"})
        with pytest.raises(Denied, match=REMOVED_SUFFIX):
            await remove.repair(site(w))
        assert half_deleted(w.effects.folder) == [aside(task)]
        assert text(task.path, "theirs.txt") == "theirs\n"
        shutil.rmtree(task.path)


async def test_trash_that_could_not_be_deleted_is_deleted_later(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put(w.effects.folder, {f"{TRASH_PREFIX}0123456789abcdef/a.txt": "a\n"})
        await w.effects.settle()
        assert half_deleted(w.effects.folder) == []


@pytest.mark.parametrize("cut_off", [False, True])
async def test_what_git_has_of_a_deleted_worktree_is_saved_before_it_is_made_anew(
    repo: UserRepository, home: str, cut_off: bool
) -> None:
    """A commit on no branch, what was staged, what a rebase had put aside: also when its making is cut off."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        git(task.path, "checkout", "--quiet", "--detach")
        put(task.path, {"aside.txt": "aside\n"})
        git(task.path, "add", "--all")
        aside = git(task.path, "stash", "create")
        put(os.path.join(task.must_be_ours(), "rebase-merge"), {"autostash": f"{aside}\n"})
        git(task.path, "reset", "--quiet", "--hard")
        git(task.path, "commit", "--quiet", "--allow-empty", "--message=On no branch")
        put(task.path, {"staged.txt": "staged\n"})
        git(task.path, "add", "--all")
        shutil.rmtree(task.path)
        make = MakeWorktree(task="T-1", base=base)
        if cut_off:
            await make.repair(site(w))
        await make.perform(site(w))
        saved = await w.repository.refs(f"{w.place('T-1').salvage_refs}/{site(w).effect_id}*")
        files = {name for ref in saved for name in git(repo.path, "ls-tree", "--name-only", ref).split()}
        assert {"aside.txt", "staged.txt"} <= files
        assert "On no branch" in git(repo.path, "log", "--format=%s", *saved)


@pytest.mark.parametrize("aside", ["", "\0\0\0", "no id\n", "0123456789012345678901234567890123456789\n"])
async def test_what_was_put_aside_and_is_lost_is_in_nobodys_way(repo: UserRepository, home: str, aside: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.must_be_ours(), {"MERGE_AUTOSTASH": aside})
        shutil.rmtree(task.path)
        await w.open_worktree("T-1")
        assert await probe(w, MakeWorktree(task="T-1", base="HEAD")) is ProbeOutcome.YES


def in_conflict(task: Worktree) -> None:
    trees = []
    for content in ("ours\n", "theirs\n"):
        put(task.path, {"disputed.txt": content})
        git(task.path, "add", "disputed.txt")
        trees.append(git(task.path, "write-tree"))
    git(task.path, "read-tree", "--reset", "HEAD")
    git(task.path, "read-tree", "-m", "HEAD", *trees)
    assert git(task.path, "ls-files", "--unmerged")


def damaged(task: Worktree) -> None:
    put(task.must_be_ours(), {"index": "no index"})


def lost(task: Worktree) -> None:
    put(task.path, {"lost.txt": "lost\n"})
    git(task.path, "add", "lost.txt")
    oid = git(task.path, "rev-parse", ":lost.txt")
    os.unlink(os.path.join(task.repository.common_dir, "objects", oid[:2], oid[2:]))


@pytest.mark.parametrize("broken", [in_conflict, damaged, lost])
async def test_an_index_of_which_no_tree_can_be_made_is_in_nobodys_way(
    repo: UserRepository, home: str, broken: Callable[[Worktree], None]
) -> None:
    async with working_on(repo, home) as w:
        for act in (w.open_worktree, w.remove_worktree):
            task = await w.open_worktree("T-1")
            broken(task)
            shutil.rmtree(task.path)
            await act("T-1")
        assert await probe(w, RemoveWorktree(task="T-1")) is ProbeOutcome.YES
