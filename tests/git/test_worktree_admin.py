"""Git's entries of worktrees, which several runs make and drop at once."""

import os
import shutil

import pytest

from holdfast.git import worktree_admin as entries
from holdfast.git.worktree_admin import drop_entries, entries_of
from tests.support.repositories import UserRepository, put


@pytest.fixture
def common_dir(repo: UserRepository) -> str:
    return os.path.join(repo.path, ".git")


def tree(repo: UserRepository, folder: str, run: str) -> str:
    """A run's worktree; each run has one of the same name."""
    path = os.path.join(folder, run, "workspace")
    repo.git("worktree", "add", "--quiet", "--detach", path)
    repo.remember()
    return path


def entries_in(common_dir: str) -> list[str]:
    path = os.path.join(common_dir, "worktrees")
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def nameless(repo: UserRepository, folder: str) -> tuple[str, str, str]:
    """Another run's worktree, ours, which is not made yet, and the one entry, which could be of either."""
    theirs = tree(repo, folder, "theirs")
    entry = os.path.join(repo.path, ".git", "worktrees", "workspace")
    os.truncate(os.path.join(entry, "gitdir"), 0)
    return theirs, os.path.join(folder, "ours", "workspace"), entry


def test_what_another_run_is_dropping_is_not_taken_for_ours(
    repo: UserRepository, folder: str, common_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tree(repo, folder, "theirs")
    ours = os.path.join(folder, "ours", "workspace")
    shutil.rmtree(theirs)
    seen = []

    def looked_at(path: str, *, ignore_errors: bool) -> None:
        """By another process, at the instant in which all that tells whose it is is gone."""
        seen.append(entries_of(common_dir, ours))
        remove(path, ignore_errors=ignore_errors)

    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", looked_at)
    drop_entries(common_dir, theirs)
    assert seen
    assert not any(seen)
    assert entries_in(common_dir) == []


@pytest.mark.parametrize("left", [{"HEAD": "ref: refs/heads/x\n"}, {"gitdir": "{path}/.git\n"}, {}])
def test_one_that_we_were_killed_over_while_we_dropped_it_is_dropped(
    repo: UserRepository, folder: str, common_dir: str, left: dict[str, str]
) -> None:
    path = tree(repo, folder, "ours")
    shutil.rmtree(path)
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        drop_entries(common_dir, path)
    (hidden,) = entries_in(common_dir)
    assert hidden.startswith("holdfast-dropped-")
    place = os.path.join(common_dir, "worktrees", hidden)
    shutil.rmtree(place)
    os.mkdir(place)
    put(place, {name: text.format(path=path) for name, text in left.items()})
    assert entries_of(common_dir, path) == [place]
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == (2 if "gitdir" in left else 1)
    drop_entries(common_dir, path)
    assert entries_in(common_dir) == []


def test_one_that_gets_its_name_while_we_look_is_not_ours(
    repo: UserRepository, folder: str, common_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run's git had just begun it, and was done with it when we looked for a git at work."""
    theirs, ours, entry = nameless(repo, folder)
    assert entries_of(common_dir, ours) == [entry]  # left by a git that was killed, as far as anybody can tell

    def done(*_: str) -> bool:
        put(entry, {"gitdir": f"{theirs}/.git\n"})
        return False

    monkeypatch.setattr(entries, "pids_working_in", done)
    assert entries_of(common_dir, ours) == []
    assert entries_of(common_dir, theirs) == [entry]


def test_one_that_another_run_dropped_before_us_is_let_be(
    repo: UserRepository, folder: str, common_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both had taken what a killed git left for theirs; and then somebody's new worktree has its name."""
    theirs, ours, entry = nameless(repo, folder)

    def too_late(old: str, new: str) -> None:
        put(entry, {"gitdir": f"{theirs}/.git\n"})
        raise FileNotFoundError(old, new)

    monkeypatch.setattr(os, "rename", too_late)
    drop_entries(common_dir, ours)
    assert entries_of(common_dir, theirs) == [entry]
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 2
