"""Effects on a repository: doing one again is harmless, and a probe says whether it was done."""

import os
import shutil
import subprocess

import pytest

from holdfast.engine.workspace import Workspace
from holdfast.git.effects import (
    EFFECTS,
    REMOVED,
    TRASH,
    CommitTask,
    DeleteBranch,
    DropRefs,
    GitEffect,
    Happened,
    KeepFailed,
    MakeWorktree,
    MergeTask,
    RemoveWorktree,
    Site,
    TakeSnapshot,
    UnwindFailed,
    worktrees,
)
from holdfast.git.process import GitFailed, GitKilled
from holdfast.git.worktree import Worktree
from holdfast.leaf.errors import Denied, TimedOut
from tests.support.repositories import UserRepository, git, half_deleted, put, text, working_on
from tests.support.waiting import until


def site(w: Workspace, effect: str = "0123456789abcdef") -> Site:
    return Site(w.run_id, effect, w.repository, w.hands.folder)


async def probe(w: Workspace, effect: GitEffect) -> Happened:
    return (await effect.probe(site(w))).happened


async def test_every_effect_is_known_by_its_kind() -> None:
    assert all(EFFECTS[kind].kind == kind for kind in EFFECTS)


async def test_finishing_twice_is_finishing_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        effect = CommitTask(task="T-1", base=base, message="One")
        put(task.path, {"a.txt": "one\n"})
        assert await probe(w, effect) is Happened.NO
        first = await effect.perform(site(w))
        assert await probe(w, effect) is Happened.YES
        put(task.path, {"a.txt": "later\n"})
        assert await effect.perform(site(w)) == first
        assert text(task.path, "a.txt") == "later\n"


@pytest.mark.parametrize("times", [1, 2])
async def test_each_can_be_done_again(repo: UserRepository, home: str, times: int) -> None:
    async with working_on(repo, home) as w:
        base = repo.tip()
        for effect in (
            MakeWorktree(task="T-1", base=base),
            KeepFailed(task="T-1", base=base, reason="reason"),
            UnwindFailed(task="T-1", base=base),
            TakeSnapshot(task="T-1", name="one"),
        ):
            if isinstance(effect, KeepFailed):
                put(w.worktree("T-1").path, {"a.txt": "one\n"})
            for _ in range(times):
                await effect.perform(site(w, f"{effect.kind.encode().hex()}"))
        commit = await w.hands.perform(CommitTask(task="T-1", base=base, message="One"))
        merge = MergeTask(task="T-1", base=base, commit=commit["commit"])
        assert await probe(w, merge) is Happened.NO
        results = [await merge.perform(site(w)) for _ in range(times)]
        assert await probe(w, merge) is Happened.YES
        assert len({str(result) for result in results}) == 1
        remove = RemoveWorktree(task="T-1")
        assert await probe(w, remove) is Happened.NO
        for _ in range(times):
            assert await remove.perform(site(w)) == {}
        assert await probe(w, remove) is Happened.YES
        assert half_deleted(w.hands.folder) == []


def aside(task: Worktree) -> str:
    folder, name = os.path.split(task.path)
    return os.path.join(folder, f".{name}{REMOVED}")


@pytest.mark.parametrize("next_time", [False, True])
async def test_a_removal_that_was_cut_off_is_brought_to_its_end(
    repo: UserRepository, home: str, next_time: bool
) -> None:
    """By whoever settles it, or by the next removal: with what came into the folder when it was saved already."""
    async with working_on(repo, home) as w:
        task, remove = await w.open("T-1"), RemoveWorktree(task="T-1")
        put(task.path, {"new.txt": "new\n"})
        await remove._save(site(w), task)
        os.rename(task.path, aside(task))
        put(aside(task), {"late.txt": "late\n"})
        assert await probe(w, remove) is Happened.NO
        if next_time:
            saved = await w.remove("T-1")
        else:
            saved = await remove.mend(site(w))
        assert await probe(w, remove) is Happened.YES
        assert half_deleted(w.hands.folder) == []
        assert git(repo.path, "show", f"{saved}:new.txt") == "new"
        assert git(repo.path, "show", f"{saved}:late.txt") == "late"


@pytest.mark.parametrize("dropped", [False, True])
async def test_what_is_in_the_trash_was_saved(repo: UserRepository, home: str, dropped: bool) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open("T-1"), RemoveWorktree(task="T-1")
        own = task.must_be_ours()
        os.rename(task.path, os.path.join(w.hands.folder, TRASH + site(w).effect))
        if dropped:
            shutil.rmtree(own)
        await remove.mend(site(w))
        assert await probe(w, remove) is Happened.YES
        assert half_deleted(w.hands.folder) == []


@pytest.mark.parametrize("why", ["a repository", "an unknown folder", "a filter"])
async def test_what_cannot_be_saved_is_not_removed_but_put_back(repo: UserRepository, home: str, why: str) -> None:
    """It came into the folder while that was being moved aside; or somebody pruned what git knew of it."""
    async with working_on(repo, home) as w:
        task, remove = await w.open("T-1"), RemoveWorktree(task="T-1")
        own = task.must_be_ours()
        os.rename(task.path, aside(task))
        put(aside(task), {"inner/a.txt": "a\n"})
        match why:
            case "a repository":
                git(os.path.join(aside(task), "inner"), "init", "--quiet")
            case "an unknown folder":
                shutil.rmtree(own)
            case "a filter":
                put(aside(task), {".gitattributes": "*.txt filter=broken\n"})
                repo.git("config", "filter.broken.clean", "false")
                repo.git("config", "filter.broken.required", "true")
        with pytest.raises(Denied) as told:
            await remove.mend(site(w))
        assert REMOVED not in str(told.value)
        assert text(task.path, "inner/a.txt") == "a\n"
        assert half_deleted(w.hands.folder) == []
        assert await probe(w, remove) is Happened.NO
        shutil.rmtree(task.path)
        await remove.perform(site(w))
        assert await probe(w, remove) is Happened.YES


@pytest.mark.parametrize("submodules", [False, True])
async def test_where_git_is_killed_over_what_came_late_it_is_looked_at_again(
    repo: UserRepository, home: str, monkeypatch: pytest.MonkeyPatch, submodules: bool
) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open("T-1"), RemoveWorktree(task="T-1")
        os.rename(task.path, aside(task))
        put(aside(task), {"late.txt": "late\n", **({".gitmodules": ""} if submodules else {})})
        with monkeypatch.context() as killing:
            killing.setattr(worktrees, "save", killed)
            with pytest.raises(GitKilled):
                await remove.mend(site(w))
        assert half_deleted(w.hands.folder) == [aside(task)]
        saved = await remove.mend(site(w))
        assert git(repo.path, "show", f"{saved}:late.txt") == "late"
        assert half_deleted(w.hands.folder) == []


async def killed(*_: object) -> None:
    raise GitKilled("add", -9, "")


async def test_what_is_aside_while_its_place_is_taken_is_told_of_by_its_name(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task, remove = await w.open("T-1"), RemoveWorktree(task="T-1")
        shutil.rmtree(task.must_be_ours())
        os.rename(task.path, aside(task))
        put(task.path, {"theirs.txt": "theirs\n"})
        with pytest.raises(Denied, match=REMOVED):
            await remove.mend(site(w))
        assert half_deleted(w.hands.folder) == [aside(task)]
        assert text(task.path, "theirs.txt") == "theirs\n"
        shutil.rmtree(task.path)


async def test_trash_that_could_not_be_deleted_is_deleted_later(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put(w.hands.folder, {f"{TRASH}0123456789abcdef/a.txt": "a\n"})
        await w.hands.settle()
        assert half_deleted(w.hands.folder) == []


@pytest.mark.parametrize("cut_off", [False, True])
async def test_what_git_has_of_a_deleted_worktree_is_saved_before_it_is_made_anew(
    repo: UserRepository, home: str, cut_off: bool
) -> None:
    """A commit on no branch, what was staged, what a rebase had put aside: also when its making is cut off."""
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        base = git(task.path, "rev-parse", "HEAD")
        git(task.path, "checkout", "--quiet", "--detach")
        put(task.path, {"aside.txt": "aside\n"})
        git(task.path, "add", "--all")
        aside = git(task.path, "stash", "create")
        put(os.path.join(task.must_be_ours(), "rebase-merge"), {"autostash": f"{aside}\n"})
        git(task.path, "reset", "--quiet", "--hard")
        git(task.path, "commit", "--quiet", "--allow-empty", "--message=On no branch")
        put(task.path, {"staged.txt": "staged\n"})
        git(task.path, "add", "--all")
        shutil.rmtree(task.path)
        make = MakeWorktree(task="T-1", base=base)
        if cut_off:
            await make.mend(site(w))
        await make.perform(site(w))
        saved = await w.repository.refs(f"{w.place('T-1').salvage}/{site(w).effect}*")
        files = {name for ref in saved for name in git(repo.path, "ls-tree", "--name-only", ref).split()}
        assert {"aside.txt", "staged.txt"} <= files
        assert "On no branch" in git(repo.path, "log", "--format=%s", *saved)


@pytest.mark.parametrize("aside", ["", "\0\0\0", "no id\n", "0123456789012345678901234567890123456789\n"])
async def test_what_was_put_aside_and_is_lost_is_in_nobodys_way(repo: UserRepository, home: str, aside: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.must_be_ours(), {"MERGE_AUTOSTASH": aside})
        shutil.rmtree(task.path)
        await w.open("T-1")
        assert await probe(w, MakeWorktree(task="T-1", base="HEAD")) is Happened.YES


async def test_another_ones_half_made_worktree_does_not_make_ours_one(repo: UserRepository, home: str) -> None:
    """Git was killed over it before it had written whose it is."""
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"new.txt": "new\n"})
        put(os.path.join(repo.git_dir, "worktrees", "T-17"), {"locked": "initializing"})
        assert await probe(w, MakeWorktree(task="T-1", base="HEAD")) is Happened.YES
        shutil.rmtree(os.path.join(repo.git_dir, "worktrees", "T-17"))


async def test_a_deleted_branch_is_saved_unless_it_is_merged(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        for task in ("T-1", "T-2"):
            put((await w.open(task)).path, {task: "x\n"})
            await w.commit(task, task)
            await w.remove(task)
        await w.merge(["T-1"])
        for task, saved in (("T-1", False), ("T-2", True)):
            branch = w.place(task).branch
            at = repo.tip(branch)
            effect = DeleteBranch(branch=branch, commit=at, merged_into=w.place().branch)
            result = await w.hands.perform(effect)
            assert ("salvaged" in result) is saved
            assert not saved or repo.tip(result["salvaged"]) == at
            assert await w.repository.commit_of(f"refs/heads/{branch}") is None
            assert await effect.perform(site(w)) == {}


async def test_a_branch_is_saved_when_what_it_should_be_merged_into_is_gone(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open("T-1")).path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", "One")
        await w.remove("T-1")
        effect = DeleteBranch(branch=w.place("T-1").branch, commit=str(commit), merged_into="holdfast/gone/main")
        assert repo.tip((await w.hands.perform(effect))["salvaged"]) == commit


async def test_what_an_agent_merged_and_committed_itself_is_what_its_task_came_to(
    repo: UserRepository, home: str
) -> None:
    async with working_on(repo, home) as w:
        for task in ("T-1", "T-2"):
            put((await w.open(task)).path, {task: "x\n"})
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
        task = await w.open("T-1", base=later)
        git(task.path, "reset", "--quiet", "--hard", first)
        assert await CommitTask(task="T-1", base=later, message="One").perform(site(w)) == {"commit": None}


@pytest.mark.parametrize("collected", [False, True])
async def test_what_a_tasks_branch_had_before_it_was_set_back_is_found_by_a_name(
    repo: UserRepository, home: str, collected: bool
) -> None:
    """As long as git has it; and the same is told by who comes after a death."""
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"a.txt": "one\n"})
        done = str(await w.commit("T-1", "One"))
        git(task.path, "reset", "--quiet", "--hard", repo.tip())
        if collected:
            repo.git("reflog", "expire", "--expire=now", "--all")
            repo.git("gc", "--quiet", "--prune=now")
        merge = MergeTask(task="T-1", base=repo.tip(), commit=repo.tip(task.branch), done=done)
        result = await merge.perform(site(w))
        kept = None if collected else f"{w.place('T-1').salvage}/{done[:16]}"
        assert result["set_back"] == {task.branch: kept}
        assert kept is None or repo.tip(kept) == done
        assert (await merge.probe(site(w))).result == result


async def test_a_branch_that_moved_on_is_not_deleted(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        at = repo.tip(task.branch)
        put(task.path, {"a.txt": "one\n"})
        await w.commit("T-1", "One")
        with pytest.raises(Denied, match=r"has moved on to .* meanwhile; it was left as it is"):
            await w.hands.perform(DeleteBranch(branch=task.branch, commit=at))


async def test_our_refs_are_dropped_and_no_others(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        for content in ("one", "two"):
            put(task.path, {"a.txt": content})
            await w.snapshot("T-1", content)
        effect = DropRefs(prefix=w.place("T-1").snapshots)
        assert await probe(w, effect) is Happened.NO
        await effect.perform(site(w))
        assert await probe(w, effect) is Happened.YES
        assert git(repo.path, "for-each-ref", "refs/holdfast") == ""
        assert repo.tip(task.branch) == repo.tip()


async def test_snapshots_outlive_the_users_garbage_collection(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"a.txt": "one\n"})
        snapshot = await w.snapshot("T-1", "one")
        put(task.path, {"a.txt": "two\n"})
        saved = await w.remove("T-1")
        repo.git("reflog", "expire", "--expire=now", "--all")
        repo.git("gc", "--quiet", "--prune=now")
        repo.git("worktree", "prune", "--expire=now")
        await w.open("T-1")
        await w.restore("T-1", snapshot)
        assert text(task.path, "a.txt") == "one\n"
        assert git(repo.path, "show", f"{saved}:a.txt") == "two"


async def test_a_failing_hook_after_the_checkout_does_not_undo_it(repo: UserRepository, home: str) -> None:
    repo.hook("post-checkout", "exit 1")
    async with working_on(repo, home) as w:
        assert text((await w.open("T-1")).path, "b.txt") == "b\n"


async def test_worktrees_of_the_users_that_are_away_stay_registered(
    repo: UserRepository, home: str, folder: str
) -> None:
    """As on a disk that is not plugged in."""
    away = os.path.join(folder, "away")
    repo.git("worktree", "add", "--quiet", away, "other")
    os.rename(away, f"{away}.not-here")
    repo.remember()
    async with working_on(repo, home) as w:
        await w.open("T-1")
        await w.remove("T-1")
    assert away in git(repo.path, "worktree", "list")


async def test_a_users_branch_of_our_name_is_one_clear_line(repo: UserRepository, home: str) -> None:
    repo.git("branch", "holdfast")
    with pytest.raises(GitFailed, match="'refs/heads/holdfast' exists; cannot create"):
        async with working_on(repo, home):
            pass


async def test_locks_are_not_taken_from_a_git_at_work(repo: UserRepository, home: str, folder: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        lock = os.path.join(task.must_be_ours(), "index.lock")
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        repo.hook("pre-commit", f"cat {gate}")
        put(task.path, {"a.txt": "one\n"})
        with subprocess.Popen(["git", "commit", "--quiet", "--all", "--message=x"], cwd=task.path) as commit:
            await until(lambda: os.path.exists(lock))
            with pytest.raises(Denied, match=r"git is at work in .*; wait for it, or end it, and try again"):
                await w.remove("T-1")
            with open(gate, "w", encoding="ascii"):
                pass
            assert commit.wait(20) == 0
        put(os.path.dirname(lock), {"index.lock": ""})
        assert await w.remove("T-1") is None


async def test_a_git_that_was_killed_leaves_nothing_in_the_way(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"a.txt": "one\n"})
        repo.hook("pre-commit", "kill -9 $PPID")
        with pytest.raises(GitFailed, match="it was ended by signal 9"):
            await w.commit("T-1", "One")
        assert text(task.path, "a.txt") == "one\n"
        repo.hook("pre-commit", "exit 0")
        assert await w.commit("T-1", "One") is not None


class Impatient(CommitTask, frozen=True, kw_only=True):
    """Gives the user's hook one second."""

    async def perform(self, site: Site) -> dict[str, object]:
        await self.worktree(site).git.do("commit", "--quiet", "--all", "--message=x", limit=1)
        return {}


async def test_a_git_that_took_too_long_leaves_nothing_in_the_way(repo: UserRepository, home: str, folder: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"a.txt": "one\n"})
        repo.hook("pre-commit", "sleep 100")
        with pytest.raises(TimedOut, match="took longer than 1 s and was ended"):
            await w.hands.perform(Impatient(task="T-1", base=repo.tip(), message="x"), task="T-1")
        repo.hook("pre-commit", "exit 0")
        assert await w.commit("T-1", "One") is not None
