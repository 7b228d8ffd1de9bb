"""Refs and commits that are read without git are what git says, and what is not plain is left to git."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.git.ref_files import (
    AskGit,
    has_checkout,
    has_no_refs,
    may_have_gitlinks,
    read_commit,
    read_head,
    read_ref,
)
from holdfast.git.repository import Repository
from tests.support.repositories import UserRepository, git, put

REF = "refs/heads/main"


@pytest.fixture
def common_dir(repo: UserRepository) -> str:
    return repo.git_dir


def main_of(repo: UserRepository) -> str:
    return git(repo.path, "rev-parse", REF)


def test_loose_packed_and_missing_refs(repo: UserRepository, common_dir: str) -> None:
    assert read_ref(common_dir, REF) == main_of(repo)
    repo.git("pack-refs", "--all")
    repo.remember()
    assert not os.path.exists(os.path.join(common_dir, REF))
    assert read_ref(common_dir, REF) == main_of(repo)
    assert read_ref(common_dir, "refs/heads/none") is None
    assert read_ref(common_dir, f"{REF}/below") is None
    assert read_ref(common_dir, "refs/heads") is None


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"0123", b"ref: refs/heads/other\n", b"a" * 40])
async def test_torn_or_symbolic_ref_is_left_to_git(repo: UserRepository, common_dir: str, content: bytes) -> None:
    put(common_dir, {"refs/heads/odd": content})
    with pytest.raises(AskGit):
        read_ref(common_dir, "refs/heads/odd")
    other = git(repo.path, "rev-parse", "other") if content.startswith(b"ref") else None
    assert await Repository(common_dir).commit_of("refs/heads/odd") == other
    os.unlink(os.path.join(common_dir, "refs", "heads", "odd"))


def test_link_and_pipe_are_left_to_git(common_dir: str) -> None:
    heads = os.path.join(common_dir, "refs", "heads")
    os.symlink("main", os.path.join(heads, "link"))
    os.mkfifo(os.path.join(heads, "pipe"))
    for name in ("link", "pipe"):
        with pytest.raises(AskGit):
            read_ref(common_dir, f"refs/heads/{name}")
        os.unlink(os.path.join(heads, name))


@pytest.mark.parametrize(
    "name", ["HEAD", "main", "refs/heads/a..b", "refs/heads/.x", "refs/../HEAD", "refs/heads/x.lock"]
)
def test_what_is_no_plain_name_is_left_to_git(common_dir: str, name: str) -> None:
    with pytest.raises(AskGit):
        read_ref(common_dir, name)


def test_damaged_packed_refs_are_left_to_git(repo: UserRepository, common_dir: str) -> None:
    repo.git("pack-refs", "--all")
    repo.remember()
    with open(os.path.join(common_dir, "packed-refs"), "r+b") as file:
        whole = file.read()
        file.truncate(len(whole) - 5)
    with pytest.raises(AskGit):
        read_ref(common_dir, REF)
    assert not has_no_refs(common_dir, "refs/tags/")
    put(common_dir, {"packed-refs": whole})


def test_patterns_without_refs(repo: UserRepository, common_dir: str) -> None:
    repo.git("update-ref", "refs/holdfast/salvage/r/T-1/ab", "HEAD")
    repo.remember()
    for pattern in ("refs/holdfast/salvage/r/T-1/ab", "refs/holdfast/salvage/r/T-1/", "refs/holdfast/salvage/r/*/ab"):
        assert not has_no_refs(common_dir, pattern)
    for pattern in ("refs/holdfast/salvage/r/T-1/cd-*", "refs/holdfast/salvage/r/T-2/", "refs/holdfast/salvage/q"):
        assert has_no_refs(common_dir, pattern)
    repo.git("pack-refs", "--all")
    repo.remember()
    assert not has_no_refs(common_dir, "refs/holdfast/salvage/r/T-1/ab")
    assert not has_no_refs(common_dir, "--merged=refs/heads/main")


def test_commit_is_what_git_shows(repo: UserRepository, common_dir: str) -> None:
    oid = main_of(repo)
    commit = read_commit(common_dir, oid)
    assert commit.tree == git(repo.path, "rev-parse", f"{oid}^{{tree}}")
    assert commit.parents == ()
    assert commit.message == b"Begin\n"
    with pytest.raises(AskGit):
        read_commit(common_dir, commit.tree)


async def test_damaged_or_missing_commit_is_left_to_git(repo: UserRepository, common_dir: str) -> None:
    oid = main_of(repo)
    path = os.path.join(common_dir, "objects", oid[:2], oid[2:])
    with open(path, "rb") as file:
        whole = file.read()
    for content in (b"", whole[:-4], whole[:20] + b"\0" * (len(whole) - 20)):
        os.chmod(path, 0o644)
        put(os.path.dirname(path), {os.path.basename(path): content})
        with pytest.raises(AskGit):
            read_commit(common_dir, oid)
    os.unlink(path)
    with pytest.raises(AskGit):
        read_commit(common_dir, oid)
    assert await Repository(common_dir).commit_of(oid) is None
    put(os.path.dirname(path), {os.path.basename(path): whole})


@pytest.mark.parametrize("how", ["replace", "shallow", "packed"])
async def test_replaced_shallow_and_packed_commits_are_left_to_git(
    repo: UserRepository, common_dir: str, how: str
) -> None:
    oid = main_of(repo)
    new = git(repo.path, "commit-tree", "-m", "Other", f"{oid}^{{tree}}")
    if how == "replace":
        repo.git("replace", oid, new)
    elif how == "shallow":
        put(common_dir, {"shallow": f"{oid}\n"})
    else:
        repo.git("gc", "--quiet")
    repo.remember()
    with pytest.raises(AskGit):
        read_commit(common_dir, oid)
    repository = Repository(common_dir)
    assert await repository.commit_of(REF) == oid
    assert await repository.tree_of(oid) == git(repo.path, "rev-parse", f"{oid}^{{tree}}")


def test_missing_repository_is_left_to_git(tmp_path: Path) -> None:
    """As on a disk that is not mounted: its refs are unknown, not absent."""
    for folder in (os.fspath(tmp_path), os.path.join(tmp_path, "gone")):
        with pytest.raises(AskGit):
            read_ref(folder, REF)
        assert not has_no_refs(folder, "refs/none/")
        assert has_checkout(folder, "none")


def test_reftable_is_left_to_git(common_dir: str) -> None:
    os.mkdir(os.path.join(common_dir, "reftable"))
    with pytest.raises(AskGit):
        read_ref(common_dir, REF)
    assert not has_no_refs(common_dir, "refs/none/")
    assert has_checkout(common_dir, "none")
    os.rmdir(os.path.join(common_dir, "reftable"))


def test_head_of_a_worktree(repo: UserRepository, common_dir: str, folder: str) -> None:
    assert read_head(common_dir) == REF
    assert has_checkout(common_dir, "main")
    assert not has_checkout(common_dir, "other")
    repo.git("worktree", "add", "--quiet", os.path.join(folder, "second"), "other")
    repo.remember()
    assert has_checkout(common_dir, "other")
    put(common_dir, {"worktrees/second/HEAD": b""})
    with pytest.raises(AskGit):
        read_head(os.path.join(common_dir, "worktrees", "second"))
    assert has_checkout(common_dir, "none")


def test_index_with_another_repository_is_recognized(repo: UserRepository, common_dir: str, folder: str) -> None:
    tree = os.path.join(folder, "second")
    repo.git("worktree", "add", "--quiet", "--detach", tree)
    repo.remember()
    git_dir = os.path.join(common_dir, "worktrees", "second")
    assert not may_have_gitlinks(git_dir)
    subprocess.run(
        ["git", "-C", tree, "update-index", "--add", "--cacheinfo", f"160000,{main_of(repo)},sub"], check=True
    )
    assert may_have_gitlinks(git_dir)
    os.unlink(os.path.join(git_dir, "index"))
    assert may_have_gitlinks(git_dir)
