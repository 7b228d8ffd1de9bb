"""Objects that a power cut left empty: whatever of a run names them is whole again, and nothing else is touched."""

import os
import shutil
from collections.abc import Callable, Iterable

import pytest

from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.git.missing_objects import delete_dropped, drop_empty_objects
from tests.support.repositories import UserRepository, git, put

TASK = "T-1"


def lose(repo: UserRepository, oids: Iterable[str]) -> None:
    for oid in oids:
        path = os.path.join(repo.git_dir, "objects", oid[:2], oid[2:])
        os.chmod(path, 0o600)
        os.truncate(path, 0)


def objects_of(tree: str, *wanted: str) -> list[str]:
    named = {"commit": "HEAD", "tree": "HEAD^{tree}", "blob": "HEAD:new.txt"}
    return [git(tree, "rev-parse", named[kind]) for kind in wanted]


def commit(tree: str) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=Mine")


async def at_work(repo: UserRepository, home: str) -> tuple[str, str]:
    """A run with the worktree of a task, in which an agent wrote a file."""
    run_id = await create_run(Home(home), NewRun("Test what is lost", repo.path, slug="test"))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        tree = (await workspace.open_worktree(TASK)).path
    put(tree, {"new.txt": "new\n"})
    return run_id, tree


async def must_go_on(repo: UserRepository, home: str, run_id: str) -> None:
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        made = await workspace.commit(TASK, "Work")
    assert made is not None
    assert git(repo.path, "show", f"{made}:new.txt") == "new"
    git(repo.path, "fsck", "--strict", "--no-dangling", "--no-progress", "--no-reflogs")


async def test_an_entry_that_git_cannot_read_is_in_nobodys_way(repo: UserRepository, home: str) -> None:
    """With it git lists no worktree at all: what of ours is lost is written again all the same."""
    run_id, tree = await at_work(repo, home)
    commit(tree)
    lose(repo, objects_of(tree, "commit", "tree", "blob"))
    entry = os.path.join(repo.git_dir, "worktrees", "somebodys")
    put(entry, {"commondir": "", "HEAD": "ref: refs/heads/main\n", "gitdir": "/nowhere/.git\n"})
    async with open_workspace(Home(home), run_id, "resume"):
        pass
    shutil.rmtree(entry)
    await must_go_on(repo, home, run_id)


SUBSETS = [("commit",), ("tree",), ("blob",), ("commit", "tree"), ("tree", "blob"), ("commit", "tree", "blob")]


@pytest.mark.parametrize("lost", SUBSETS)
async def test_what_an_agent_committed_is_committed_again(
    repo: UserRepository, home: str, lost: tuple[str, ...]
) -> None:
    run_id, tree = await at_work(repo, home)
    commit(tree)
    lose(repo, objects_of(tree, *lost))
    await must_go_on(repo, home, run_id)


async def test_what_an_agent_staged_is_written_again(repo: UserRepository, home: str) -> None:
    run_id, tree = await at_work(repo, home)
    git(tree, "add", "--all")
    lose(repo, [git(tree, "rev-parse", ":new.txt")])
    await must_go_on(repo, home, run_id)


async def test_what_another_run_of_the_repository_has_swept_is_made_again(repo: UserRepository, home: str) -> None:
    run_id, tree = await at_work(repo, home)
    other, _ = await at_work(repo, home)
    commit(tree)
    lose(repo, objects_of(tree, "commit", "tree", "blob"))
    async with open_workspace(Home(home), other, "resume"):
        pass
    await must_go_on(repo, home, run_id)


async def test_a_branch_without_a_journal_goes_back_to_what_the_run_knows(repo: UserRepository, home: str) -> None:
    run_id, tree = await at_work(repo, home)
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        ours = await workspace.commit(TASK, "Work")
    put(tree, {"more.txt": "more\n"})
    commit(tree)
    lose(repo, objects_of(tree, "commit"))
    os.unlink(os.path.join(repo.git_dir, "logs", "refs", "heads", "holdfast", run_id, TASK))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        assert await workspace.tip(TASK) == ours


def leave_a_file_of_a_git_at_work(folder: str) -> str:
    return os.path.join(folder, "tmp_obj_x1Y2z3")


def leave_a_file_of_somebody(folder: str) -> str:
    return os.path.join(folder, "note")


@pytest.mark.parametrize("name", [leave_a_file_of_a_git_at_work, leave_a_file_of_somebody])
def test_only_objects_are_swept(repo: UserRepository, name: Callable[[str], str]) -> None:
    folder = os.path.join(repo.git_dir, "objects", "ab")
    os.makedirs(folder, exist_ok=True)
    path, odd = name(folder), os.path.join(repo.git_dir, "objects", "no")
    for empty in (path, odd, os.path.join(folder, "0" * 38)):
        open(empty, "wb").close()
    assert len(drop_empty_objects(repo.git_dir)) == 1
    assert os.path.exists(path)
    assert os.path.exists(odd)


def test_what_was_dropped_is_found_again_until_it_is_forgotten(repo: UserRepository) -> None:
    folder = os.path.join(repo.git_dir, "objects", "ab")
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "0" * 38), "wb").close()
    dropped = drop_empty_objects(repo.git_dir)
    assert drop_empty_objects(repo.git_dir) == dropped
    assert not os.path.exists(os.path.join(folder, "0" * 38))
    delete_dropped(dropped)
    assert drop_empty_objects(repo.git_dir) == []
    assert not any(name.startswith("0" * 38) for name in os.listdir(folder))  # an object of the repository may be there
