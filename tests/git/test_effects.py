"""Effects on a repository: doing one again is harmless, and a probe says whether it was done."""

import os
import shutil
import subprocess

import pytest

from holdfast.git.effects import (
    EFFECTS,
    CommitPlaceholder,
    CommitTask,
    DeleteBranch,
    DropRefs,
    EffectSite,
    MakeWorktree,
    MergeTask,
    ProbeOutcome,
    RemoveWorktree,
    TakeSnapshot,
    UnwindPlaceholder,
)
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import Denied, TimedOut
from tests.git.probing import probe, site
from tests.support.repositories import UserRepository, git, half_deleted, put, text, working_on
from tests.support.wait import PATIENCE, until


async def test_every_effect_is_known_by_its_kind() -> None:
    assert all(EFFECTS[kind].kind == kind for kind in EFFECTS)


async def test_finishing_twice_is_finishing_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        effect = CommitTask(task="T-1", base=base, message="One")
        put(task.path, {"a.txt": "one\n"})
        assert await probe(w, effect) is ProbeOutcome.NO
        first = await effect.perform(site(w))
        assert await probe(w, effect) is ProbeOutcome.YES
        put(task.path, {"a.txt": "later\n"})
        assert await effect.perform(site(w)) == first
        assert text(task.path, "a.txt") == "later\n"


@pytest.mark.parametrize("times", [1, 2])
async def test_each_can_be_done_again(repo: UserRepository, home: str, times: int) -> None:
    async with working_on(repo, home) as w:
        base = repo.tip()
        for effect in (
            MakeWorktree(task="T-1", base=base),
            CommitPlaceholder(task="T-1", base=base, reason="reason"),
            UnwindPlaceholder(task="T-1", base=base),
            TakeSnapshot(task="T-1", name="one"),
        ):
            if isinstance(effect, CommitPlaceholder):
                put(w.worktree("T-1").path, {"a.txt": "one\n"})
            for _ in range(times):
                await effect.perform(site(w, f"{effect.kind.encode().hex()}"))
        commit = await w.effects.perform(CommitTask(task="T-1", base=base, message="One"))
        merge = MergeTask(task="T-1", base=base, commit=commit["commit"])
        assert await probe(w, merge) is ProbeOutcome.NO
        results = [await merge.perform(site(w)) for _ in range(times)]
        assert await probe(w, merge) is ProbeOutcome.YES
        assert len({str(result) for result in results}) == 1
        remove = RemoveWorktree(task="T-1")
        assert await probe(w, remove) is ProbeOutcome.NO
        for _ in range(times):
            assert await remove.perform(site(w)) == {}
        assert await probe(w, remove) is ProbeOutcome.YES
        assert half_deleted(w.effects.folder) == []


async def test_another_ones_half_made_worktree_does_not_make_ours_one(repo: UserRepository, home: str) -> None:
    """Git was killed over it before it had written whose it is."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        put(os.path.join(repo.git_dir, "worktrees", "T-17"), {"locked": "initializing"})
        assert await probe(w, MakeWorktree(task="T-1", base="HEAD")) is ProbeOutcome.YES
        shutil.rmtree(os.path.join(repo.git_dir, "worktrees", "T-17"))


async def test_a_deleted_branch_is_saved_unless_it_is_merged(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        for task in ("T-1", "T-2"):
            put((await w.open_worktree(task)).path, {task: "x\n"})
            await w.commit(task, task)
            await w.remove_worktree(task)
        await w.merge(["T-1"])
        for task, saved in (("T-1", False), ("T-2", True)):
            branch = w.place(task).branch
            at = repo.tip(branch)
            effect = DeleteBranch(branch=branch, commit=at, merged_into=w.place().branch)
            result = await w.effects.perform(effect)
            assert ("salvaged" in result) is saved
            assert not saved or repo.tip(result["salvaged"]) == at
            assert await w.repository.commit_of(f"refs/heads/{branch}") is None
            assert await effect.perform(site(w)) == {}


async def test_a_branch_is_saved_when_what_it_should_be_merged_into_is_gone(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", "One")
        await w.remove_worktree("T-1")
        effect = DeleteBranch(branch=w.place("T-1").branch, commit=str(commit), merged_into="holdfast/gone/main")
        assert repo.tip((await w.effects.perform(effect))["salvaged"]) == commit


async def test_what_an_agent_merged_and_committed_itself_is_what_its_task_came_to(
    repo: UserRepository, home: str
) -> None:
    async with working_on(repo, home) as w:
        for task in ("T-1", "T-2"):
            put((await w.open_worktree(task)).path, {task: "x\n"})
            await w.commit(task, task)
        await w.merge(["T-1"])
        at = w.worktree("T-2").path
        git(at, "merge", "--quiet", "--no-edit", w.place().branch)
        merged = git(at, "rev-parse", "HEAD")
        effect = CommitTask(task="T-2", base=repo.tip(), message="Two")
        assert [await effect.perform(site(w)) for _ in range(2)] == [{"commit": merged}] * 2
        assert await w.commit("T-2", "Two") == merged
        (result,) = await w.merge(["T-2"])
        assert result.commit is not None
        assert text(w.worktree().path, "T-2") == "x\n"


async def test_a_branch_at_which_nothing_was_done_has_no_commit_though_it_was_set_back(
    repo: UserRepository, home: str
) -> None:
    async with working_on(repo, home) as w:
        first, later = repo.tip(), repo.commit({"later.txt": "later\n"})
        task = await w.open_worktree("T-1", base=later)
        git(task.path, "reset", "--quiet", "--hard", first)
        assert await CommitTask(task="T-1", base=later, message="One").perform(site(w)) == {"commit": None}


@pytest.mark.parametrize("collected", [False, True])
async def test_what_a_tasks_branch_had_before_it_was_set_back_is_found_by_a_name(
    repo: UserRepository, home: str, collected: bool
) -> None:
    """As long as git has it; and the same is told by who comes after a death."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        done = str(await w.commit("T-1", "One"))
        git(task.path, "reset", "--quiet", "--hard", repo.tip())
        if collected:
            repo.git("reflog", "expire", "--expire=now", "--all")
            repo.git("gc", "--quiet", "--prune=now")
        merge = MergeTask(task="T-1", base=repo.tip(), commit=repo.tip(task.branch), done=done)
        result = await merge.perform(site(w))
        kept = None if collected else f"{w.place('T-1').salvage_refs}/{done[:16]}"
        assert result["set_back"] == {task.branch: kept}
        assert kept is None or repo.tip(kept) == done
        assert (await merge.probe(site(w))).result == result


async def test_a_branch_that_moved_on_is_not_deleted(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        at = repo.tip(task.branch)
        put(task.path, {"a.txt": "one\n"})
        await w.commit("T-1", "One")
        with pytest.raises(Denied, match=r"moved to .* meanwhile; it was not deleted"):
            await w.effects.perform(DeleteBranch(branch=task.branch, commit=at))


async def test_our_refs_are_dropped_and_no_others(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        for content in ("one", "two"):
            put(task.path, {"a.txt": content})
            await w.snapshot("T-1", content)
        effect = DropRefs(prefix=w.place("T-1").snapshot_refs)
        assert await probe(w, effect) is ProbeOutcome.NO
        await effect.perform(site(w))
        assert await probe(w, effect) is ProbeOutcome.YES
        assert git(repo.path, "for-each-ref", "refs/holdfast/snapshot") == ""
        assert repo.tip(task.branch) == repo.tip()


async def test_snapshots_outlive_the_users_garbage_collection(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        snapshot = await w.snapshot("T-1", "one")
        put(task.path, {"a.txt": "two\n"})
        saved = await w.remove_worktree("T-1")
        repo.git("reflog", "expire", "--expire=now", "--all")
        repo.git("gc", "--quiet", "--prune=now")
        repo.git("worktree", "prune", "--expire=now")
        await w.open_worktree("T-1")
        await w.restore("T-1", snapshot)
        assert text(task.path, "a.txt") == "one\n"
        assert git(repo.path, "show", f"{saved}:a.txt") == "two"


async def test_a_failing_hook_after_the_checkout_does_not_undo_it(repo: UserRepository, home: str) -> None:
    repo.hook("post-checkout", "exit 1")
    async with working_on(repo, home) as w:
        assert text((await w.open_worktree("T-1")).path, "b.txt") == "b\n"


async def test_worktrees_of_the_users_that_are_away_stay_registered(
    repo: UserRepository, home: str, folder: str
) -> None:
    """As on a disk that is not plugged in."""
    away = os.path.join(folder, "away")
    repo.git("worktree", "add", "--quiet", away, "other")
    os.rename(away, f"{away}.not-here")
    repo.remember()
    async with working_on(repo, home) as w:
        await w.open_worktree("T-1")
        await w.remove_worktree("T-1")
    assert away in git(repo.path, "worktree", "list")


async def test_a_users_branch_of_our_name_is_one_clear_line(repo: UserRepository, home: str) -> None:
    repo.git("branch", "holdfast")
    with pytest.raises(GitFailed, match="'refs/heads/holdfast' exists; cannot create"):
        async with working_on(repo, home):
            pass


async def test_locks_are_not_taken_from_a_git_at_work(repo: UserRepository, home: str, folder: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        lock = os.path.join(task.must_be_ours(), "index.lock")
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        repo.hook("pre-commit", f"cat {gate}")
        put(task.path, {"a.txt": "one\n"})
        with subprocess.Popen(["git", "commit", "--quiet", "--all", "--message=x"], cwd=task.path) as commit:
            await until(lambda: os.path.exists(lock))
            with pytest.raises(Denied, match=r"git is running in .*; wait until it ends, or stop it, and try again"):
                await w.remove_worktree("T-1")
            with open(gate, "w", encoding="ascii"):
                pass
            assert commit.wait(PATIENCE) == 0
        put(os.path.dirname(lock), {"index.lock": ""})
        assert await w.remove_worktree("T-1") is None


async def test_a_git_that_was_killed_leaves_nothing_in_the_way(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        repo.hook("pre-commit", "kill -9 $PPID")
        with pytest.raises(GitFailed, match="it was killed by signal 9"):
            await w.commit("T-1", "One")
        assert text(task.path, "a.txt") == "one\n"
        repo.hook("pre-commit", "exit 0")
        assert await w.commit("T-1", "One") is not None


class Impatient(CommitTask, frozen=True, kw_only=True):
    """Gives the user's hook one second."""

    async def perform(self, site: EffectSite) -> dict[str, object]:
        await self.worktree(site).git.execute("commit", "--quiet", "--all", "--message=x", timeout_s=1)
        return {}


async def test_a_git_that_took_too_long_leaves_nothing_in_the_way(repo: UserRepository, home: str, folder: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        repo.hook("pre-commit", "sleep 100")
        with pytest.raises(TimedOut, match="took longer than 1 s and was killed"):
            await w.effects.perform(Impatient(task="T-1", base=repo.tip(), message="x"), task="T-1")
        repo.hook("pre-commit", "exit 0")
        assert await w.commit("T-1", "One") is not None
