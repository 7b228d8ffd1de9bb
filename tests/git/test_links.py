"""A worktree whose `.git` was deleted or replaced is linked again, with every file as it was; or saved and removed."""

import os
import re
import shutil
from collections.abc import Callable

import pytest

from holdfast.engine.commands.archive import reset
from holdfast.engine.home import Home
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, git, put, text, working_on


def lose(path: str) -> None:
    os.unlink(os.path.join(path, ".git"))


def replace(path: str) -> None:
    lose(path)
    git(path, "init", "--quiet", "--initial-branch=mine")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message=Mine")


def lead_nowhere(path: str) -> None:
    put(path, {".git": "gitdir: /nowhere\n"})


def lose_the_entry(path: str) -> None:
    with open(os.path.join(path, ".git"), encoding="utf-8") as file:
        shutil.rmtree(file.read().removeprefix("gitdir: ").strip())


def lose_both(path: str) -> None:
    lose_the_entry(path)
    lose(path)


LOSSES = [lose, replace, lead_nowhere, lose_the_entry, lose_both]


def made(task: Worktree) -> None:
    put(task.path, {"a.txt": "work\n", "new.txt": "new\n", ".gitignore": "ignored\n", "ignored": "too\n"})


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_worktree_is_linked_again_with_its_files_as_they_were(
    repo: UserRepository, home: str, loss: Callable[[str], None]
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        made(task)
        loss(task.path)
        await w.relink("T-1")
        await w.relink("T-1")  # harmless
        assert {name: text(task.path, name) for name in ("a.txt", "new.txt", "ignored")} == {
            "a.txt": "work\n",
            "new.txt": "new\n",
            "ignored": "too\n",
        }
        commit = await w.commit("T-1", "One")
        assert [git(repo.path, "show", f"{commit}:{name}") for name in ("a.txt", "new.txt")] == ["work", "new"]
        assert git(task.path, "status", "--porcelain") == ""
        assert await w.remove_worktree("T-1") is None


async def test_the_history_of_a_repository_in_its_place_is_kept(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        made(task)
        replace(task.path)
        own = git(task.path, "rev-parse", "HEAD")
        await w.relink("T-1")
        kept = git(repo.path, "for-each-ref", "--format=%(objectname)", "refs/holdfast/salvage")
        assert kept == own


async def test_commits_that_no_branch_has_are_kept_too(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        made(task)
        replace(task.path)
        git(task.path, "tag", "v1")
        git(task.path, "checkout", "--quiet", "--detach")
        git(task.path, "commit", "--quiet", "--allow-empty", "--message=On no branch")
        put(task.path, {"a.txt": "put aside\n"})
        git(task.path, "stash")
        had = {git(task.path, "rev-parse", name) for name in ("HEAD", "v1", "mine", "stash")}
        await w.relink("T-1")
        kept = git(repo.path, "for-each-ref", "--format=%(objectname)", "refs/holdfast/salvage").splitlines()
        assert set(kept) == had


async def test_repository_that_cannot_be_read_is_not_deleted_with_the_run(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task, run = await w.open_worktree("T-1"), w.run_id
        made(task)
        replace(task.path)
        branch = os.path.join(task.path, ".git", "refs", "heads", "mine")
        put(os.path.dirname(branch), {"mine": f"{'1' * 40}\n"})
        await w.relink("T-1")
    (aside,) = [name for name in os.listdir(os.path.dirname(task.path)) if ".git-" in name]
    with pytest.raises(Denied, match=re.escape(aside)):
        await reset(Home(home), run)
    shutil.rmtree(os.path.join(os.path.dirname(task.path), aside))
    await reset(Home(home), run)


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_worktree_without_its_git_is_saved_and_removed(
    repo: UserRepository, home: str, loss: Callable[[str], None]
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        made(task)
        loss(task.path)
        saved = await w.remove_worktree("T-1")
        assert git(repo.path, "show", f"{saved}:new.txt") == "new"
        assert not os.path.lexists(task.path)
        assert task.path not in git(repo.path, "worktree", "list")


async def test_a_folder_that_was_made_anew_is_not_taken_for_the_worktree(repo: UserRepository, home: str) -> None:
    """An agent that goes on writing after its worktree was deleted makes one: all other files seem to be deleted."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {f"file {number}": "x" for number in range(5)})
        await w.commit("T-1", "Many")
        shutil.rmtree(task.path)
        put(task.path, {"new.txt": "new\n"})
        await w.relink("T-1")
        assert not os.path.lexists(task.path)
        (saved,) = git(repo.path, "for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").splitlines()
        assert git(repo.path, "show", f"{saved}:new.txt") == "new"


async def test_a_folder_that_the_run_knows_nothing_of_is_left_alone(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        place = w.worktree("T-9").path
        put(place, {"new.txt": "new\n"})
        await w.relink("T-9")
        assert text(place, "new.txt") == "new\n"
