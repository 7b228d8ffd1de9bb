"""A repository that several users share: what one may not look at is not taken for gone, nor for nobody's."""

import asyncio
import multiprocessing
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator

import pytest

from holdfast.engine.commands.doctor import diagnose
from holdfast.engine.home import Home
from holdfast.git.locks import remove_stale
from holdfast.git.repository import Repository
from holdfast.git.worktree_admin import drop_entries, entries_of
from holdfast.git.worktrees.worktree import Worktree, delete_half_made, is_complete
from tests.support.wait import until

_NOBODY = 65534
_RUN = "demo-abc234"
_GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@localhost")
_HOOK = "#!/bin/sh\nexec cat pipe > told\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: other users (only root can be several)")


@pytest.fixture
def repository() -> Iterator[str]:
    """Made by root, and anybody may write in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "repository")
        subprocess.run(["git", "init", "--quiet", "--shared=0777", path], check=True)
        os.chmod(path, 0o777)
        git(path, "commit", "--quiet", "--allow-empty", "-m", "first")
        yield path


def git(at: str, *words: str) -> str:
    return subprocess.run([*_GIT, "-C", at, *words], check=True, capture_output=True, text=True, umask=0).stdout


def as_nobody(do: Callable[..., None], *arguments: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=_be_nobody, args=(do, *arguments))
    child.start()
    child.join()
    assert child.exitcode == 0


def _be_nobody(do: Callable[..., None], *arguments: str) -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    os.chdir("/")
    os.environ |= {"HOME": "/nonexistent", "GIT_CONFIG_COUNT": "1"}
    os.environ |= {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    do(*arguments)


def _held(lock: str, folder: str) -> None:
    assert not remove_stale(lock, folder)


def _stale(lock: str, folder: str) -> None:
    assert remove_stale(lock, folder)


async def test_a_lock_of_another_users_git_is_left_to_it_while_that_is_at_work(repository: str) -> None:
    hook = os.path.join(repository, ".git", "hooks", "pre-commit")
    with open(hook, "w", encoding="utf-8") as file:
        file.write(_HOOK)
    os.chmod(hook, 0o755)
    os.mkfifo(os.path.join(repository, "pipe"))
    lock = os.path.join(repository, ".git", "index.lock")
    commit = [*_GIT, "commit", "--quiet", "--all", "--allow-empty", "-m", "second"]  # --all: the lock is kept for it
    with subprocess.Popen(commit, cwd=repository) as working:
        try:
            await until(lambda: os.path.exists(os.path.join(repository, "told")))
            assert os.path.exists(lock)
            as_nobody(_held, lock, repository)
            assert os.path.exists(lock)
        finally:
            working.kill()
            with open(os.path.join(repository, "pipe"), "wb"):
                pass  # the end of its hook
    os.chown(lock, _NOBODY - 1, -1)  # who has no git at all: root may be at work elsewhere
    as_nobody(_stale, lock, repository)
    assert not os.path.exists(lock)


def _doctored(repository: str, home: str, worktree: str) -> None:
    async def treat() -> list[str]:
        ailments = await diagnose(Home(home), [repository])
        for one in ailments:
            if one.repair is not None:
                await one.repair()
        return [one.subject for one in ailments]

    assert asyncio.run(treat()) == [worktree]
    with pytest.raises(PermissionError):
        drop_entries(repository, worktree)


def test_a_worktree_in_a_folder_of_another_user_is_not_gone(repository: str) -> None:
    theirs = os.path.join(os.path.dirname(repository), "theirs")
    os.mkdir(theirs, 0o700)
    worktree, branch = os.path.join(theirs, "runs", _RUN, "workspace"), f"holdfast/{_RUN}/main"
    git(repository, "worktree", "add", "--quiet", "-b", branch, worktree)
    mine = os.path.join(os.path.dirname(repository), "mine")
    as_nobody(_doctored, os.path.join(repository, ".git"), mine, worktree)
    assert git(worktree, "status", "--short") == ""
    assert git(repository, "rev-parse", "HEAD") == git(repository, "rev-parse", branch)


def _added_beside(repository: str, folder: str) -> None:
    async def add() -> None:
        tree = Worktree(Repository(repository), os.path.join(folder, "workspace"), "holdfast/mine-abc234/main")
        delete_half_made(tree)
        await tree.repository.git.execute("worktree", "add", "--quiet", "-b", tree.branch, tree.path)
        assert await is_complete(tree)
        shutil.rmtree(tree.path)
        drop_entries(repository, tree.path)
        assert entries_of(repository, tree.path) == []

    asyncio.run(add())


def test_an_entry_that_another_user_keeps_to_themselves_is_in_nobodys_way(repository: str) -> None:
    """The worktrees of all runs have the same name, and git gives their entries the umask of whoever makes them."""
    theirs, mine = (os.path.join(os.path.dirname(repository), name) for name in ("theirs", "mine"))
    os.mkdir(mine)
    os.chown(mine, _NOBODY, -1)
    worktree = os.path.join(theirs, "workspace")
    adding = [*_GIT, "-C", repository, "worktree", "add", "--quiet", "-b", f"holdfast/{_RUN}/main", worktree]
    subprocess.run(adding, check=True, umask=0o077)
    as_nobody(_added_beside, os.path.join(repository, ".git"), mine)
    assert git(worktree, "status", "--short") == ""
