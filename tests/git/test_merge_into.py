"""Merging the run's branch into one of the user's: without their checkout, and never over their own moves."""

import os
from collections.abc import AsyncIterator

import pytest

from holdfast.engine.workspace.publish import merge_into_branch
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.merge import MergeConflicts
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, git, put, put_program, working_on


@pytest.fixture
async def done(repo: UserRepository, home: str) -> AsyncIterator[Workspace]:
    """A run that changed a.txt and added new.txt."""
    async with working_on(repo, home) as w:
        put(w.worktree().path, {"a.txt": "1\n2\nrun\n", "new.txt": "new\n"})
        await w.commit(None, "The run's")
        yield w


async def into(w: Workspace, target: str) -> str:
    commit = git(w.repository.common_dir, "rev-parse", w.place().branch)
    return await merge_into_branch(w, target, commit)


def commit_on(repo: UserRepository, branch: str, name: str, content: str) -> str:
    """A commit of the user's on a branch that is not checked out."""
    tree = os.path.join(os.path.dirname(repo.path), f"tree-{branch}")
    repo.git("worktree", "add", "--quiet", tree, branch)
    put(tree, {name: content})
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=User's")
    repo.remember()
    repo.git("worktree", "remove", tree)
    return repo.tip(branch)


async def test_a_branch_that_is_behind_goes_forward(repo: UserRepository, done: Workspace) -> None:
    assert await into(done, "other") == repo.tip(done.place().branch)
    assert repo.tip("other") == repo.tip(done.place().branch)
    repo.remember()


async def test_a_branch_that_went_its_own_way_gets_a_merge(repo: UserRepository, done: Workspace) -> None:
    theirs = commit_on(repo, "other", "theirs.txt", "theirs\n")
    merged = await into(done, "other")
    assert git(repo.path, "rev-parse", f"{merged}^1", f"{merged}^2").split() == [theirs, repo.tip(done.place().branch)]
    assert git(repo.path, "ls-tree", "--name-only", merged).split() == [
        ".gitignore", "a.txt", "b.txt", "new.txt", "src", "theirs.txt",
    ]  # fmt: skip
    assert f"Holdfast-Run: {done.run_id}" in git(repo.path, "log", "-1", "--format=%B", merged)
    assert await into(done, "other") == merged
    repo.remember()


async def test_a_conflict_moves_nothing(repo: UserRepository, done: Workspace) -> None:
    theirs = commit_on(repo, "other", "a.txt", "1\n2\ntheirs\n")
    with pytest.raises(MergeConflicts, match=r"does not merge into other: conflicts in a.txt"):
        await into(done, "other")
    assert repo.tip("other") == theirs


async def test_changed_file_of_a_checkout_is_not_overwritten(repo: UserRepository, done: Workspace) -> None:
    with pytest.raises(Denied, match=r"main is checked out in .*, and the merge would overwrite a\.txt there"):
        await into(done, "main")


async def test_a_branch_that_is_being_rebased_is_left_to_the_user(repo: UserRepository, done: Workspace) -> None:
    commit_on(repo, "other", "theirs.txt", "theirs\n")
    tree = os.path.join(os.path.dirname(repo.path), "rebasing")
    repo.git("worktree", "add", "--quiet", tree, "other")
    git(tree, "-c", "sequence.editor=sed -i 1ibreak", "rebase", "--quiet", "--interactive", "HEAD^")
    repo.remember()
    with pytest.raises(Denied, match="other is being rebased; finish the rebase first"):
        await into(done, "other")


async def test_a_branch_that_moved_meanwhile_is_merged_where_it_is_then(
    repo: UserRepository, done: Workspace, folder: str
) -> None:
    """The user's own merge driver runs while we merge, and moves the branch: once, or each time."""
    first = commit_on(repo, "other", "a.txt", "theirs\n2\n3\n")
    commit_on(repo, "other", "theirs.txt", "theirs\n")
    tip = repo.tip("other")
    moves = f"git update-ref refs/heads/other {first} {tip} || exit 0; exit 0"
    driver = put_program(os.path.join(folder, "driver"), moves)
    repo.config("merge.odd.driver", driver)
    put(os.path.join(repo.git_dir, "info"), {"attributes": "a.txt merge=odd\n"})
    repo.remember()
    merged = await into(done, "other")
    assert repo.tip("other") == merged
    assert git(repo.path, "rev-parse", f"{merged}^1").strip() == first
    repo.remember()


async def test_a_branch_that_never_stands_still_is_left_alone(
    repo: UserRepository, done: Workspace, folder: str
) -> None:
    first = commit_on(repo, "other", "a.txt", "theirs\n2\n3\n")
    second = commit_on(repo, "other", "theirs.txt", "theirs\n")
    swap = (
        f'if [ "$(git rev-parse refs/heads/other)" = {first} ]; then to={second}; else to={first}; fi; '
        "git update-ref refs/heads/other $to; exit 0"
    )
    repo.config("merge.odd.driver", put_program(os.path.join(folder, "driver"), swap))
    put(os.path.join(repo.git_dir, "info"), {"attributes": "a.txt merge=odd\n"})
    repo.remember()
    with pytest.raises(Denied, match=rf"another git moved other .*holdfast merge {done.run_id} --into other"):
        await into(done, "other")
    assert repo.tip("other") in (first, second)
    repo.remember()


async def test_a_branch_that_is_not_there_is_one_clear_line(done: Workspace) -> None:
    with pytest.raises(Denied, match="the branch nowhere does not exist"):
        await into(done, "nowhere")
