"""Ways in which work could be lost or recorded wrongly, each closed, as small as it can be told."""

import asyncio
import os
import subprocess
import sys

import pytest

from holdfast.core.events.effect import EffectIntended
from holdfast.core.state import BranchStatus
from holdfast.engine.commands.archive import archive, reset
from holdfast.engine.home import Home
from holdfast.engine.queries.diff import compare_run
from holdfast.engine.workspace.reconcile import reconcile_workspace
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.commit import HookRefused, UnresolvedConflicts
from holdfast.git.effects import ProbeOutcome
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import BadInput, Denied
from tests.support.run_files import content, put_content
from tests.support.wait import until

ODD_TASK = "fix the login"  # cannot be a folder's name as it is


@pytest.fixture
def home(tmp_path: os.PathLike[str]) -> str:
    return os.path.join(tmp_path, "home")


@pytest.fixture
def repo(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    place = os.path.join(tmp_path, "repo")
    git(os.fspath(tmp_path), "init", "--quiet", "--initial-branch=main", place)
    git(place, "config", "user.name", "User")
    git(place, "config", "user.email", "user@example.com")
    put(place, "a.txt", "one\n")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=one")
    return place


def git(place: str, *arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], cwd=place, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def put(folder: str, name: str, text: str | bytes) -> None:
    put_content(os.path.join(folder, name), text if isinstance(text, bytes) else text.encode())


def hook(repo: str, name: str, script: str) -> None:
    path = os.path.join(repo, ".git", "hooks", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    put_content(path, f"#!/bin/sh\n{script}\n".encode())
    os.chmod(path, 0o755)


async def conflicting(w: Workspace, name: str, first: str | bytes, second: str | bytes) -> None:
    for task, text in (("T-1", first), ("T-2", second)):
        put((await w.open_worktree(task)).path, name, text)
        await w.commit(task, task)
    await w.merge(["T-1", "T-2"])


async def test_a_task_with_an_odd_name_is_saved_like_any_other(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put((await w.open_worktree(ODD_TASK)).path, "new.txt", "new\n")
        findings = await reconcile_workspace(w)
    assert all("left alone" not in finding.message for finding in findings)
    (saved,) = await archive(Home(home), run_id)
    assert git(repo, "show", f"{saved}:new.txt") == "new"


async def test_what_is_no_worktree_is_not_deleted_with_the_run(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    copy = os.path.join(home, "runs", run_id, "tasks", "my rescue copy")
    os.makedirs(copy)
    put(copy, "precious.txt", "precious\n")
    with pytest.raises(Denied, match="my rescue copy"):
        await reset(Home(home), run_id)
    assert content(os.path.join(copy, "precious.txt")) == b"precious\n"


async def test_whoever_only_looks_survives_the_opening_of_a_run(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    script = (
        "import asyncio, sys\n"
        "from holdfast.engine.home import Home\n"
        "from holdfast.engine.queries.diff import compare_run\n"
        "print('looking', flush=True)\n"
        "while True: asyncio.run(compare_run(Home(sys.argv[1]), sys.argv[2]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, home, run_id], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for _ in range(5):
            async with open_workspace(Home(home), run_id, "resume"):
                pass
        assert reader.poll() is None
        reader.kill()


async def test_merges_at_the_same_time_are_made_one_after_the_other(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    tasks = [f"T-{number}" for number in range(4)]
    async with open_workspace(Home(home), run_id, "run") as w:
        for task in tasks:
            put((await w.open_worktree(task)).path, task, task)
            await w.commit(task, task)
        await asyncio.gather(*(w.merge([task]) for task in tasks))
        assert all(os.path.exists(os.path.join(w.worktree().path, task)) for task in tasks)
        branches = w.effects.run.state.branches
        assert all(branches[w.place(task).branch].status is BranchStatus.MERGED for task in tasks)


async def test_a_detached_head_and_a_pushed_copy_do_not_count_as_the_users(home: str, repo: str) -> None:
    remote = os.path.join(home, "remote.git")
    git(repo, "init", "--quiet", "--bare", remote)
    git(repo, "remote", "add", "origin", remote)
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put(w.worktree().path, "new.txt", "new\n")
        await w.commit(None, "New")
    git(repo, "checkout", "--quiet", "--detach", f"holdfast/{run_id}/main")
    git(repo, "push", "--quiet", "origin", f"holdfast/{run_id}/main")
    (saved,) = await reset(Home(home), run_id)
    assert git(repo, "show", f"{saved}:new.txt") == "new"


async def test_a_merge_puts_nothing_aside_but_in_salvage(home: str, repo: str) -> None:
    git(repo, "config", "merge.autoStash", "true")
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        for task in ("T-1", "T-2"):
            put((await w.open_worktree(task)).path, "a.txt", f"{task}\n")
            put(w.worktree(task).path, f"{task}.txt", "begun\n")
            await w.commit(task, task)
        put(w.worktree("T-2").path, "T-2.txt", "not committed yet\n")
        await w.merge(["T-1", "T-2"])
        assert git(repo, "stash", "list") == ""
        (saved,) = git(repo, "for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").splitlines()
        assert git(repo, "show", f"{saved}:T-2.txt") == "not committed yet"


@pytest.mark.parametrize(("first", "second"), [(b"\0one", b"\0two"), ("1\n", "2\n")], ids=["no text", "text"])
async def test_a_conflict_that_nobody_touched_is_not_resolved(
    home: str, repo: str, first: str | bytes, second: str | bytes
) -> None:
    put(repo, ".gitattributes", "data -diff\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message=attributes")
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        await conflicting(w, "data", first, second)
        with pytest.raises(UnresolvedConflicts, match="data"):
            await w.commit("T-2", "Resolved?")
        put(w.worktree("T-2").path, "data", b"\0both" if isinstance(first, bytes) else "both\n")
        git(w.worktree("T-2").path, "add", "data")
        await w.commit("T-2", "Resolved")
        (merge,) = await w.merge(["T-2"])
        assert merge.commit is not None


async def test_a_note_that_came_back_does_not_cost_the_work(home: str, repo: str) -> None:
    """As after a power cut: the note says that the worktree is being made, and somebody has worked in it."""
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        task = (await w.open_worktree("T-1")).path
        put(task, "new.txt", "new\n")
        put(os.path.dirname(task), ".T-1.making", "")
    async with open_workspace(Home(home), run_id, "resume") as w:
        await w.open_worktree("T-1")
    (saved,) = git(repo, "for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").splitlines()
    assert git(repo, "show", f"{saved}:new.txt") == "new"


async def test_what_comes_into_the_tree_during_a_merge_that_fails_is_saved(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put((await w.open_worktree("T-1")).path, "new.txt", "new\n")
        await w.commit("T-1", "New")
        hook(repo, "pre-merge-commit", "echo mine > notes.txt; exit 1")
        with pytest.raises(HookRefused):
            await w.merge(["T-1"])
    (saved,) = git(repo, "for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").splitlines()
    assert git(repo, "show", f"{saved}:notes.txt") == "mine"


async def test_git_that_cannot_tell_is_not_git_that_says_no(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    common_dir = os.path.join(repo, ".git")
    config = os.path.join(common_dir, "config")
    before = content(config)
    git(repo, "pack-refs", "--all")
    packed_refs = os.path.join(common_dir, "packed-refs")
    packed = content(packed_refs)
    nothing = "refs/heads/nothing"
    async with open_workspace(Home(home), run_id, "run") as w:
        put_content(config, before + b"[broken\n")
        with pytest.raises(GitFailed, match="bad config"):
            await w.repository.commit_of("nothing")  # only git resolves a name that is not a full ref
        put_content(config, before)

        put_content(packed_refs, packed[:-5])
        with pytest.raises(GitFailed, match="packed-refs"):
            await w.repository.commit_of(nothing)
        put_content(packed_refs, packed)

        os.rename(common_dir, f"{common_dir}.away")
        with pytest.raises(BadInput, match="does not exist"):
            await w.repository.commit_of(nothing)
        os.mkdir(common_dir)  # as where a disk is not mounted
        with pytest.raises(GitFailed, match="not a git repository"):
            await w.repository.commit_of(nothing)
        with pytest.raises(GitFailed, match="not a git repository"):
            await w.repository.refs("refs/holdfast/salvage/")
        os.rmdir(common_dir)
        os.rename(f"{common_dir}.away", common_dir)
        assert await w.repository.commit_of(nothing) is None


async def test_commits_of_others_stay_theirs(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        task = (await w.open_worktree("T-1")).path
        put(repo, "theirs.txt", "theirs\n")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "--message=Theirs")
        git(task, "merge", "--quiet", "--ff-only", "main")
        put(task, "mine.txt", "mine\n")
        commit = await w.commit("T-1", "Mine")
        assert commit is not None
        assert git(task, "log", "--format=%s").splitlines() == ["Mine", "Theirs", "one"]


async def test_a_lock_that_is_held_for_a_moment_is_waited_for(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put(w.worktree().path, "new.txt", "new\n")
        with open(os.path.join(w.worktree().must_be_ours(), "index.lock"), "w", encoding="utf-8") as lock:
            asyncio.get_running_loop().call_later(0.3, lock.close)
            assert await w.commit(None, "New") is not None


async def test_a_hook_that_refuses_leaves_the_agents_own_commits(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        task = (await w.open_worktree("T-1")).path
        put(task, "own.txt", "own\n")
        git(task, "add", "--all")
        git(task, "commit", "--quiet", "--message=Own")
        own = git(task, "rev-parse", "HEAD")
        hook(repo, "pre-commit", "exit 1")
        put(task, "more.txt", "more\n")
        with pytest.raises(HookRefused):
            await w.commit("T-1", "All")
        assert git(task, "rev-parse", "HEAD") == own


async def test_an_effect_that_is_cancelled_has_an_outcome_in_the_same_session(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put(w.worktree().path, "new.txt", "new\n")
        held = os.path.join(home, "held")
        hook(repo, "pre-commit", f"touch {held}; sleep 60")
        commit = asyncio.ensure_future(w.commit(None, "New"))
        await until(lambda: os.path.exists(held))
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        assert w.effects.run.state.effects == {}
        hook(repo, "pre-commit", "exit 0")
        assert await w.commit(None, "New") is not None


async def test_what_a_branch_began_at_is_what_it_did_begin_at(home: str, repo: str) -> None:
    """A branch that a crash left behind, and the run's own moved on meanwhile."""
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        began = await w.tip()
        git(repo, "branch", "--no-track", w.place("T-1").branch, began)
        put((await w.open_worktree("T-2")).path, "two.txt", "two\n")
        await w.commit("T-2", "Two")
        await w.merge(["T-2"])
        await w.open_worktree("T-1")
        assert w.effects.run.state.branches[w.place("T-1").branch].base == began
    assert (await compare_run(Home(home), run_id, "T-1")).files == ()


async def test_an_opening_does_not_touch_what_came_after_an_effect_that_happened(home: str, repo: str) -> None:
    run_id = await create_run(Home(home), NewRun("go", repo))
    async with open_workspace(Home(home), run_id, "run") as w:
        put((await w.open_worktree("T-1")).path, "new.txt", "new\n")
        await w.commit("T-1", "New")
        await w.merge(["T-1"])
        put(w.worktree().path, "after.txt", "after\n")
        assert await _merge_again(w) == [ProbeOutcome.YES]
        assert content(os.path.join(w.worktree().path, "after.txt")) == b"after\n"


async def _merge_again(w: Workspace) -> list[ProbeOutcome]:
    """The same merge, left open as a crash would, and settled."""
    arguments = {"task": "T-1", "base": w.base(None), "commit": await w.tip("T-1")}
    await w.effects.run.append(EffectIntended(effect="e" * 16, kind="merge", task="T-1", arguments=arguments))
    return [settled.probe.outcome for settled in await w.effects.settle()]
