"""Snapshots: the whole state of a worktree, saved without disturbing it, and brought back."""

import os
from collections.abc import Callable

import pytest

from holdfast.core.work.names import SNAPSHOT_REFS, temporary_name
from holdfast.git.snapshot import capture, diff, save, take_snapshot
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, files_of, git, put, state_of, text, working_on

REF = f"{SNAPSHOT_REFS}test/x"


def stage(tree: str) -> None:
    put(tree, {"a.txt": "staged\n", "new.txt": "new\n"})
    git(tree, "add", "--all")


def leave_unstaged(tree: str) -> None:
    put(tree, {"a.txt": "unstaged\n"})


def leave_untracked(tree: str) -> None:
    put(tree, {"deep/er/new.txt": "new\n", "-dash": "", "new\nline": "", os.fsdecode(b"caf\xe9"): "no UTF-8"})


def stage_and_go_on(tree: str) -> None:
    stage(tree)
    put(tree, {"a.txt": "further\n", "b.txt": "also\n"})


def delete(tree: str) -> None:
    os.unlink(os.path.join(tree, "a.txt"))
    git(tree, "rm", "--quiet", "src/c.py")


def stage_and_delete(tree: str) -> None:
    stage(tree)
    os.unlink(os.path.join(tree, "new.txt"))


def untrack(tree: str) -> None:
    git(tree, "rm", "--quiet", "--cached", "a.txt")


def rename(tree: str) -> None:
    git(tree, "mv", "a.txt", "renamed.txt")
    os.rename(os.path.join(tree, "b.txt"), os.path.join(tree, "moved.txt"))


def change_mode(tree: str) -> None:
    os.chmod(os.path.join(tree, "a.txt"), 0o755)
    os.symlink("a.txt", os.path.join(tree, "link"))
    os.symlink("nowhere", os.path.join(tree, "dangling"))


def become_a_folder(tree: str) -> None:
    os.unlink(os.path.join(tree, "a.txt"))
    put(tree, {"a.txt/inside.txt": "inside\n"})


def force_ignored(tree: str) -> None:
    put(tree, {"forced.log": "forced\n", "ignored.log": "ignored\n"})
    git(tree, "add", "--force", "forced.log")


def split_the_index(tree: str) -> None:
    git(tree, "update-index", "--split-index")
    stage_and_go_on(tree)


STATES = [
    stage, leave_unstaged, leave_untracked, stage_and_go_on, delete, stage_and_delete, untrack, rename, change_mode,
    become_a_folder, force_ignored, split_the_index,
]  # fmt: skip


def seen(tree: str) -> tuple[str, str, dict[str, tuple[int, bytes]]]:
    """What is staged, what git calls changed, and every file with its mode."""
    files = {}
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                files[os.path.relpath(path, tree)] = (0, os.fsencode(os.readlink(path)))
            elif name != ".git":
                with open(path, "rb") as file:
                    files[os.path.relpath(path, tree)] = (os.stat(path).st_mode, file.read())
    return git(tree, "ls-files", "--stage"), git(tree, "status", "--porcelain", "--ignored"), files


@pytest.mark.parametrize("state", STATES)
async def test_a_worktree_comes_back_as_it_was_and_was_not_disturbed(
    repo: UserRepository, home: str, state: Callable[[str], None]
) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        state(task.path)
        before, looks = state_of(task.path), seen(task.path)
        snapshot = await w.snapshot("T-1", "one")
        assert state_of(task.path) == before
        put(task.path, {"b.txt": "later\n", "later/file.txt": "later\n"})
        git(task.path, "add", "b.txt")
        saved = await w.restore("T-1", snapshot)
        assert saved is not None
        assert seen(task.path) == looks
        assert files_of(repo.path, saved)["later/file.txt"]
        assert git(task.path, "rev-parse", "HEAD") == before["head"]


async def test_ignored_files_are_not_in_it_and_stay(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"x.log": "ignored\n", "new.txt": "new\n"})
        snapshot = await w.snapshot("T-1", "one")
        assert sorted(files_of(repo.path, snapshot)) == [".gitignore", "a.txt", "b.txt", "new.txt", "src/c.py"]
        os.unlink(os.path.join(task.path, "new.txt"))
        await w.restore("T-1", snapshot)
        assert text(task.path, "x.log") == "ignored\n"


async def test_the_snapshot_of_a_clean_worktree_is_its_commit(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        assert await w.snapshot("T-1", "one") == git(task.path, "rev-parse", "HEAD")


async def test_what_a_killed_write_left_is_not_in_it(repo: UserRepository, home: str) -> None:
    left = temporary_name("0123456789abcdef")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {left: "half", f"src/{left}": "half"})
        assert (await capture(task, "only that")).is_clean
        assert await save(task, REF, "Saved") is None
        put(task.path, {"new.txt": "new\n"})
        snapshot = await w.snapshot("T-1", "one")
        assert sorted(files_of(repo.path, snapshot)) == [".gitignore", "a.txt", "b.txt", "new.txt", "src/c.py"]


async def test_a_file_that_is_only_announced_is_in_it(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"new.txt": "new\n"})
        git(task.path, "add", "--intent-to-add", "new.txt")
        before = state_of(task.path)
        snapshot = await w.snapshot("T-1", "one")
        assert state_of(task.path) == before
        assert git(repo.path, "show", f"{snapshot}:new.txt") == "new"


async def test_a_change_in_the_tick_of_the_add_is_not_missed(repo: UserRepository, home: str) -> None:
    """Same size, and as old as the index: git must look into the file, and knows it by the age of the index."""
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        for round_ in range(10):
            put(task.path, {"a.txt": f"{round_}a\n"})
            git(task.path, "add", "a.txt")
            put(task.path, {"a.txt": f"{round_}b\n"})
            snapshot = await take_snapshot(task, REF, "Racy")
            assert git(repo.path, "show", f"{snapshot.oid}:a.txt") == f"{round_}b"


async def test_what_was_staged_comes_back_also_when_the_files_are_the_same(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        stage_and_go_on(task.path)
        looks = seen(task.path)
        snapshot = await w.snapshot("T-1", "one")
        git(task.path, "reset", "--quiet")
        assert seen(task.path) != looks
        await w.restore("T-1", snapshot)
        assert seen(task.path) == looks


async def test_one_is_taken_in_the_middle_of_a_conflict(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task, other = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(task.path, {"a.txt": "one\n", "new.txt": "one\n"})
        put(other.path, {"a.txt": "two\n", "new.txt": "two\n"})
        await w.commit("T-1", "One")
        await w.commit("T-2", "Two")
        assert (await w.merge(["T-1", "T-2"]))[1].conflicts == ("a.txt", "new.txt")
        put(other.path, {"untracked.txt": "x\n"})
        before = state_of(other.path)
        snapshot = await w.snapshot("T-2", "conflict")
        assert state_of(other.path) == before
        assert "<<<<<<<" in git(repo.path, "show", f"{snapshot}:a.txt")
        assert git(repo.path, "show", f"{snapshot}:untracked.txt") == "x"


async def test_saving_never_overwrites_what_was_saved(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        refs = []
        for content in ("one", "two", "three"):
            put(task.path, {"a.txt": content})
            refs.append(await save(task, REF, "Saved"))
        assert refs == [REF, f"{REF}-2", f"{REF}-3"]
        assert [git(repo.path, "show", f"{ref}:a.txt") for ref in refs] == ["one", "two", "three"]


async def test_what_the_branch_has_is_not_saved(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        assert await save(task, REF, "Saved") is None
        put(task.path, {"a.txt": "one"})
        await w.commit("T-1", "One")
        assert await save(task, REF, "Saved") is None
        assert await w.remove_worktree("T-1") is None


async def test_any_two_can_be_compared(repo: UserRepository, home: str) -> None:
    repo.config("color.ui", "always")
    repo.config("diff.noprefix", "true")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        clean = await w.snapshot("T-1", "clean")
        put(task.path, {"b.txt": "one\n"})
        one = await w.snapshot("T-1", "one")
        put(task.path, {"b.txt": "two\n", "c.txt": "c\n"})
        two = await w.snapshot("T-1", "two")
        assert (await diff(w.repository, clean, one, "--name-only")).decode() == "b.txt\n"
        assert (await diff(w.repository, one, two, "--name-status")).decode() == "M\tb.txt\nA\tc.txt\n"
        lines = (await diff(w.repository, two, one)).decode().splitlines()
        assert (lines[0], lines[4:7]) == ("diff --git a/b.txt b/b.txt", ["@@ -1 +1 @@", "-two", "+one"])
        assert await diff(w.repository, one, one) == b""


async def test_a_merge_commit_is_not_taken_for_a_snapshot_with_something_staged(
    repo: UserRepository, home: str, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Also where git knows nobody's name, and the merge is in ours."""
    monkeypatch.setenv("HOME", folder)
    repo.config("user.useConfigOnly", "true")
    async with working_on(repo, home) as w:
        for task in [await w.open_worktree("T-1"), await w.open_worktree("T-2")]:
            put(task.path, {os.path.basename(task.path): "new\n"})
            await w.commit(os.path.basename(task.path), "New")
        await w.merge(["T-1", "T-2"])
        merge = await w.snapshot(None, "merged")
        assert len(git(repo.path, "rev-parse", f"{merge}^@").split()) == 2
        put(w.worktree().path, {"more.txt": "more\n"})
        await w.restore(None, merge)
        assert git(w.worktree().path, "status", "--porcelain") == ""


async def test_restoring_saves_what_stands_there_and_keeps_commits(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        one = await w.snapshot("T-1", "one")
        commit = await w.commit("T-1", "One")
        put(task.path, {"a.txt": "two\n"})
        saved = await w.restore("T-1", one)
        assert saved is not None
        assert git(repo.path, "show", f"{saved}:a.txt") == "two"
        assert git(task.path, "rev-parse", "HEAD") == commit
        assert git(task.path, "status", "--porcelain") == ""
        assert await w.restore("T-1", one) is None


async def test_a_snapshot_may_be_called_like_our_own_folder_of_refs(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"a.txt": "one\n"})
        await w.snapshot("T-1", "taken back")
        git(task.path, "commit", "--quiet", "--all", "--message=Agent's own")
        assert await w.commit("T-1", "One") is not None


async def test_what_cannot_be_saved_is_not_overwritten(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        one = await w.snapshot("T-1", "one")
        put(task.path, {"nested/file": "x", "a.txt": "two\n"})
        git(f"{task.path}/nested", "init", "--quiet")
        for act in (w.restore("T-1", one), w.remove_worktree("T-1")):
            with pytest.raises(Denied, match=r"contains repositories with uncommitted work \(nested/\)"):
                await act
        assert (text(task.path, "nested/file"), text(task.path, "a.txt")) == ("x", "two\n")


async def test_lines_that_a_careful_user_has_git_refuse_are_saved_all_the_same(repo: UserRepository, home: str) -> None:
    repo.config("core.autocrlf", "input")
    repo.config("core.safecrlf", "true")
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        put(task.path, {"windows.txt": "a\r\nb\r\n"})
        assert await w.snapshot("T-1", "one")
        assert await w.remove_worktree("T-1") is not None


async def test_a_killed_snapshots_copy_is_cleared_away(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree("T-1")
        own = task.must_be_ours()
        put(own, {"holdfast-index-abc/index": "", "index.lock": ""})
        task.clear_locks()
        assert [name for name in os.listdir(own) if "holdfast" in name or "lock" in name] == []
        assert (await capture(task, "x")).is_clean
