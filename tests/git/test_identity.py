"""A worktree is checked before every write: what is no longer ours is left alone, and so is what encloses it."""

import os
import shutil
from collections.abc import Awaitable, Callable

import pytest

from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.worktrees.worktree import NotOurWorktree, Worktree
from holdfast.leaf.errors import Denied
from tests.git.conftest import NewRepository
from tests.support.repositories import UserRepository, git, put, text, working_on

Act = Callable[[Workspace], Awaitable[object]]

ACTS: dict[str, Act] = {
    "snapshot": lambda w: w.snapshot("T-1", "later"),
    "commit": lambda w: w.commit("T-1", "Commit"),
    "keep_failed": lambda w: w.keep_failed("T-1", "reason"),
    "unwind_failed": lambda w: w.unwind_failed("T-1"),
    "restore": lambda w: w.restore("T-1", w.base("T-1")),
    "remove": lambda w: w.remove_worktree("T-1"),
}


def lose_git(tree: Worktree, folder: str) -> None:
    os.unlink(os.path.join(tree.path, ".git"))


def become_plain(tree: Worktree, folder: str) -> None:
    shutil.rmtree(tree.path)
    put(tree.path, {"a.txt": "plain\n"})


def become_a_repository(tree: Worktree, folder: str) -> None:
    os.unlink(os.path.join(tree.path, ".git"))
    git(tree.path, "init", "--quiet")


def become_anothers(tree: Worktree, folder: str) -> None:
    git(folder, "init", "--quiet", "stranger")
    git(f"{folder}/stranger", "commit", "--quiet", "--allow-empty", "--message=Begin")
    shutil.rmtree(tree.path)
    git(f"{folder}/stranger", "worktree", "add", "--quiet", "-b", tree.branch, tree.path)
    put(tree.path, {"a.txt": "another's\n"})


def become_a_copy(tree: Worktree, folder: str) -> None:
    """The entry of git says that the worktree is elsewhere."""
    git(tree.repository.common_dir, "worktree", "move", tree.path, os.path.join(folder, "moved"))
    shutil.copytree(os.path.join(folder, "moved"), tree.path)


UNLINKED = [lose_git, become_plain, become_a_repository]
LOSSES = [lose_git, become_plain, become_a_repository, become_anothers, become_a_copy]


def everything_in(path: str) -> dict[str, bytes]:
    found = {}
    for folder, _, files in os.walk(path):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = file.read()
    return found


@pytest.mark.parametrize(
    ("loss", "act"), [(loss, act) for loss in LOSSES for act in ACTS if act != "remove" or loss not in UNLINKED]
)
async def test_nothing_is_written_where_the_worktree_is_no_longer_ours(
    new_repository: NewRepository, repo: UserRepository, loss: Callable[[Worktree, str], None], act: str
) -> None:
    """Holdfast's home lies inside a repository of the user's, which must not take the place of the worktree."""
    enclosing = new_repository("enclosing", files={"a.txt": "enclosing\n", ".gitignore": "home/\n"})
    enclosing.besides = os.path.join(enclosing.path, "home")
    async with working_on(repo, enclosing.besides) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"partial.txt": "partial\n"})
        await w.keep_failed("T-1", "reason")
        put(task.path, {"a.txt": "work\n", "new.txt": "new\n"})
        loss(task, os.path.dirname(repo.path))
        before, tip = everything_in(task.path), git(repo.path, "rev-parse", task.branch)
        with pytest.raises(NotOurWorktree, match=r"nothing was changed|was moved or copied"):
            await ACTS[act](w)
        assert everything_in(task.path) == before
        assert git(repo.path, "rev-parse", task.branch) == tip


@pytest.mark.parametrize("loss", [become_plain, become_a_repository, lose_git])
async def test_a_worktree_is_not_made_where_something_else_stands(
    repo: UserRepository, home: str, folder: str, loss: Callable[[Worktree, str], None]
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        loss(task, folder)
        before = everything_in(task.path)
        with pytest.raises(Denied, match=r"is in the way: it is not the worktree of .*; move it away"):
            await w.open_worktree("T-1")
        assert everything_in(task.path) == before


@pytest.mark.parametrize("switch", [("switch", "--create", "elsewhere"), ("switch", "--detach")])
@pytest.mark.parametrize("act", ["commit", "keep_failed", "unwind_failed", "restore"])
async def test_no_branch_is_moved_from_a_worktree_on_another_one(
    repo: UserRepository, home: str, switch: tuple[str, ...], act: str
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"partial.txt": "partial\n"})
        await w.keep_failed("T-1", "reason")
        git(task.path, *switch)
        put(task.path, {"new.txt": "new\n"})
        head = git(task.path, "rev-parse", "HEAD")
        on = "elsewhere" if "--create" in switch else "no branch"
        with pytest.raises(NotOurWorktree, match=f"is on {on}, not on {task.branch}; switch it back with: git -C"):
            await ACTS[act](w)
        assert git(task.path, "rev-parse", "HEAD", task.branch) == f"{head}\n{head}"
        assert text(task.path, "new.txt") == "new\n"
        git(task.path, "switch", "--quiet", task.branch)
        if "--create" in switch:
            git(task.path, "branch", "-D", "elsewhere")  # an agent's, but not one of the names that are ours


async def test_what_a_detached_worktree_holds_is_saved_before_it_is_removed(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        git(task.path, "switch", "--quiet", "--detach")
        put(task.path, {"new.txt": "new\n"})
        git(task.path, "add", "--all")
        git(task.path, "commit", "--quiet", "--message=Detached")
        commit = git(task.path, "rev-parse", "HEAD")
        saved = await w.remove_worktree("T-1")
        assert saved is not None
        assert git(repo.path, "rev-parse", saved) == commit
        assert not os.path.exists(task.path)


async def test_a_moved_worktree_is_left_alone_where_it_is(repo: UserRepository, home: str, folder: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        moved = os.path.join(folder, "moved")
        os.rename(task.path, moved)
        before = everything_in(moved)
        with pytest.raises(NotOurWorktree, match="was moved or copied: git has it registered at"):
            await Worktree(w.repository, moved, task.branch).must_be_on_branch()
        with pytest.raises(NotOurWorktree, match="does not exist any more"):
            await w.commit("T-1", "Commit")
        assert everything_in(moved) == before


async def test_a_repository_behind_a_link_is_the_same_repository(
    new_repository: NewRepository, home: str, folder: str
) -> None:
    """As when it was moved to a larger disk, and a link stands where it was."""
    repo = new_repository("repo")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        os.rename(repo.path, os.path.join(folder, "large"))
        os.symlink(os.path.join(folder, "large"), repo.path)
        put(task.path, {"new.txt": "new\n"})
        assert await w.commit("T-1", "New") is not None
        os.unlink(repo.path)
        os.rename(os.path.join(folder, "large"), repo.path)


async def test_a_branch_that_is_gone_is_one_clear_line(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        await w.open_worktree("T-1")
        git(repo.path, "update-ref", "-d", f"refs/heads/{w.place('T-1').branch}")
        with pytest.raises(Denied, match=r"no longer exists; .*git branch .* COMMIT"):
            await w.merge(["T-1"])
