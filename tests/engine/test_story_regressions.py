"""What stories of crashes and of other people's doings once brought to light, each as small as it can be told."""

import os
import subprocess

import pytest

from holdfast.engine.commands.doctor import diagnose
from holdfast.engine.commands.publish import push_run
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.git.commit import HookRefused
from holdfast.git.process import GitFailed
from holdfast.git.worktrees.worktree import NotOurWorktree
from holdfast.leaf.errors import Denied
from tests.support.run_files import content, put_content


@pytest.fixture
def repo(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    place = os.path.join(tmp_path, "repo")
    git(os.fspath(tmp_path), "init", "--quiet", "--initial-branch=main", place)
    git(place, "config", "user.name", "User")
    git(place, "config", "user.email", "user@example.com")
    put_content(os.path.join(place, "a.txt"), b"one\n")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=one")
    return place


def git(place: str, *arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], cwd=place, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def program(path: str, *lines: str) -> None:
    put_content(path, "\n".join(("#!/bin/sh", *lines, "")).encode())
    os.chmod(path, 0o755)


def git_that_dies(folder: str, command: str) -> str:
    """A folder for PATH whose git is killed when it is asked for this, and is itself otherwise."""
    os.makedirs(folder)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    program(os.path.join(folder, "git"), f'case " $* " in *" {command} "*) kill -9 $$ ;; esac', f'exec {real} "$@"')
    return f"{folder}:{os.environ['PATH']}"


async def test_the_lock_of_a_killed_git_on_a_branch_does_not_stop_its_next_making(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    lock = os.path.join(repo, ".git", "refs", "heads", "holdfast", run_id, "T-1.lock")
    put_content(lock, b"")
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        assert not os.path.exists(lock)
        put_content(lock, b"")  # and once more, while we own the run
        assert os.path.isdir((await workspace.open_worktree("T-1")).path)


async def test_the_lock_of_a_killed_git_on_a_snapshot_does_not_stop_the_same_snapshot(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await workspace.open_worktree("T-1")
        await workspace.snapshot("T-1", "turn 1")
        put_content(os.path.join(repo, ".git", workspace.place("T-1").snapshot_refs, "turn-2.lock"), b"")
        assert await workspace.snapshot("T-1", "turn 2")


async def test_the_locks_of_a_killed_agents_git_do_not_stop_a_commit(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        task = await workspace.open_worktree("T-1")
        put_content(os.path.join(task.path, "a.txt"), b"two\n")
        own = task.must_be_ours()
        for name in ("index.lock", "HEAD.lock"):
            put_content(os.path.join(own, name), b"")
        assert await workspace.commit("T-1", "two") is not None


async def test_opening_a_run_frees_its_worktrees_of_the_locks_of_the_dead(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        lock = os.path.join((await workspace.open_worktree("T-1")).must_be_ours(), "index.lock")
    put_content(lock, b"")
    put_content(os.path.join(repo, ".git", "packed-refs.lock"), b"")
    async with open_workspace(Home(home), run_id, "resume"):
        assert not os.path.exists(lock)
        assert not os.path.exists(os.path.join(repo, ".git", "packed-refs.lock"))


async def test_a_git_that_was_killed_did_not_say_no(home: str, repo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await workspace.open_worktree("T-1")
    monkeypatch.setenv("PATH", git_that_dies(os.path.join(home, "bin"), "rev-parse"))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        with pytest.raises(GitFailed, match="signal 9"):
            await workspace.repository.commit_of(workspace.place("T-1").branch)
    monkeypatch.setenv("PATH", git_that_dies(os.path.join(home, "bin2"), "merge-base"))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        with pytest.raises(GitFailed, match="signal 9"):
            await workspace.repository.is_ancestor("main", "HEAD")


async def test_a_commit_that_was_killed_was_not_refused_by_a_hook(
    home: str, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        task = await workspace.open_worktree("T-1")
    put_content(os.path.join(task.path, "a.txt"), b"two\n")
    os.makedirs(os.path.join(repo, ".git", "hooks"), exist_ok=True)
    program(os.path.join(repo, ".git", "hooks", "pre-commit"), "kill -9 $PPID")
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        with pytest.raises(GitFailed, match="signal 9") as killed:
            await workspace.commit("T-1", "two")
        assert not isinstance(killed.value, HookRefused)
        os.unlink(os.path.join(repo, ".git", "hooks", "pre-commit"))
        assert await workspace.commit("T-1", "two") is not None


async def test_a_worktree_on_another_branch_is_told_as_such_and_not_as_something_in_the_way(
    home: str, repo: str
) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        task = await workspace.open_worktree("T-1")
        git(task.path, "switch", "--quiet", "--create", "agents-own")
        with pytest.raises(NotOurWorktree, match="is on agents-own, not on"):
            await workspace.open_worktree("T-1")


async def test_a_worktree_is_not_removed_with_a_repository_that_its_commits_name_and_nothing_else_has(
    home: str, repo: str
) -> None:
    run_id = await create_run(Home(home), NewRun("go on", repo))
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        task = await workspace.open_worktree("T-1")
        nested = os.path.join(task.path, "nested")
        git(task.path, "init", "--quiet", nested)
        put_content(os.path.join(nested, "only here"), b"work\n")
        git(nested, "add", "--all")
        git(nested, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=inside")
        git(task.path, "add", "--all")
        git(task.path, "commit", "--quiet", "--message=with a repository in it")
        with pytest.raises(Denied, match="nested"):
            await workspace.remove_worktree("T-1")
    assert content(os.path.join(nested, "only here")) == b"work\n"


async def test_the_doctors_repair_of_a_lock_is_done_when_the_lock_is_gone_by_itself(home: str, repo: str) -> None:
    await create_run(Home(home), NewRun("go on", repo))
    lock = os.path.join(repo, ".git", "packed-refs.lock")
    put_content(lock, b"")
    (repair,) = [ailment.repair for ailment in await diagnose(Home(home), []) if ailment.subject == lock]
    os.unlink(lock)
    assert repair is not None
    await repair()


async def test_a_push_that_was_killed_leaves_no_lock_on_what_the_user_knows_of_the_remote(home: str, repo: str) -> None:
    remote = os.path.join(home, "remote.git")
    git(repo, "init", "--quiet", "--bare", remote)
    git(repo, "remote", "add", "origin", remote)
    run_id = await create_run(Home(home), NewRun("go on", repo))
    await push_run(Home(home), run_id)
    git(repo, "push", "--quiet", "origin", "--delete", f"holdfast/{run_id}/main")
    lock = os.path.join(repo, ".git", "refs", "remotes", "origin", "holdfast", run_id, "main.lock")
    os.makedirs(os.path.dirname(lock), exist_ok=True)
    put_content(lock, b"")
    await push_run(Home(home), run_id)
    assert not os.path.exists(lock)
