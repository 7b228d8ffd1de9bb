"""Merging a task's branch into the run's: whole or not at all, and conflicts where somebody can resolve them."""

import os
from collections.abc import Callable

import pytest

from holdfast.core.events.work import TaskCommitted
from holdfast.engine.workspace.workspace import MergeResult, Workspace
from holdfast.git.commit import HookRefused
from holdfast.git.process import GitFailed
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, files_of, git, put, put_program, state_of, text, working_on

Change = Callable[[str], None]


def write(**files: str) -> Change:
    return lambda tree: put(tree, {name.replace("_", "."): content for name, content in files.items()})


def remove(name: str) -> Change:
    return lambda tree: os.unlink(os.path.join(tree, name))


def move(old: str, new: str) -> Change:
    return lambda tree: os.rename(os.path.join(tree, old), os.path.join(tree, new))


def put_bytes(name: str, content: bytes) -> Change:
    return lambda tree: put(tree, {name: content})


def link(name: str, target: str) -> Change:
    def change(tree: str) -> None:
        os.unlink(os.path.join(tree, name))
        os.symlink(target, os.path.join(tree, name))

    return change


def to_folder(name: str) -> Change:
    def change(tree: str) -> None:
        os.unlink(os.path.join(tree, name))
        put(tree, {f"{name}/inside": "inside\n"})

    return change


CONFLICTS: dict[str, tuple[Change, Change, str]] = {
    "content": (write(a_txt="one\n"), write(a_txt="two\n"), "a.txt"),
    "added by both": (write(new_txt="one\n"), write(new_txt="two\n"), "new.txt"),
    "changed and deleted": (write(a_txt="one\n"), remove("a.txt"), "a.txt"),
    "deleted and changed": (remove("a.txt"), write(a_txt="two\n"), "a.txt"),
    "renamed twice": (move("a.txt", "one.txt"), move("a.txt", "two.txt"), "two.txt"),
    "binary": (put_bytes("b.bin", b"\0one"), put_bytes("b.bin", b"\0two"), "b.bin"),
    "file and folder": (to_folder("b.txt"), write(b_txt="two\n"), "b.txt~HEAD"),
    "two links": (link("b.txt", "one"), link("b.txt", "two"), "b.txt"),
    "a name that is no UTF-8": (
        put_bytes(os.fsdecode(b"caf\xe9"), b"one\n"),
        put_bytes(os.fsdecode(b"caf\xe9"), b"two\n"),
        os.fsdecode(b"caf\xe9"),
    ),
}


async def commit_two(w: Workspace, one: Change, two: Change) -> None:
    for task, change in (("T-1", one), ("T-2", two)):
        change((await w.open_worktree(task)).path)
        assert await w.commit(task, task) is not None


@pytest.mark.parametrize("kind", CONFLICTS)
async def test_a_conflict_leaves_the_runs_worktree_as_it_was_and_is_resolved_in_the_tasks(
    repo: UserRepository, home: str, kind: str
) -> None:
    one, two, path = CONFLICTS[kind]
    async with working_on(repo, home) as w:
        await commit_two(w, one, two)
        await w.merge(["T-1"])
        run, task = w.worktree().path, w.worktree("T-2").path
        before = state_of(run)
        merge = (await w.merge(["T-2"]))[0]
        assert merge.commit is None
        assert path in merge.conflicts
        assert state_of(run) == before
        assert (await w.merge(["T-2"]))[0].conflicts == merge.conflicts
        git(task, "rm", "--quiet", "-r", "--force", "--ignore-unmatch", "--", *merge.conflicts)
        put(task, {"resolved.txt": "resolved\n"})
        assert await w.commit("T-2", "Resolved") is not None
        assert (await w.merge(["T-2"]))[0].commit == git(run, "rev-parse", "HEAD")
        assert text(run, "resolved.txt") == "resolved\n"
        assert git(run, "status", "--porcelain") == ""


async def test_conflicts_are_in_the_log_whatever_the_name(repo: UserRepository, home: str) -> None:
    one, two, _ = CONFLICTS["a name that is no UTF-8"]
    async with working_on(repo, home) as w:
        await commit_two(w, one, two)
        await w.merge(["T-1", "T-2"])
        with open(os.path.join(w.effects.folder, "events.jsonl"), encoding="utf-8") as log:
            assert "caf" in log.read()


async def test_a_conflict_does_not_stop_those_after_it(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        await commit_two(w, write(a_txt="one\n"), write(a_txt="two\n"))
        put((await w.open_worktree("T-3", base=repo.tip())).path, {"three.txt": "three\n"})
        await w.commit("T-3", "Three")
        merged = await w.merge(["T-1", "T-2", "T-3"])
        assert [merge.conflicts for merge in merged] == [(), ("a.txt",), ()]
        assert text(w.worktree().path, "three.txt") == "three\n"


async def test_a_merge_says_whose_it_is(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"a.txt": "one\n"})
        commit = await w.commit("T-1", "One")
        merge = (await w.merge(["T-1"]))[0].commit
        assert merge is not None
        assert git(repo.path, "rev-parse", f"{merge}^2") == commit
        assert git(repo.path, "log", "-1", "--format=%s", merge) == "Merge task T-1"
        trailers = git(repo.path, "log", "-1", "--format=%(trailers:only)", merge).split("\n")
        assert trailers[:2] == [f"Holdfast-Run: {w.run_id}", "Holdfast-Task: T-1"]
        assert trailers[2].startswith("Holdfast-Effect: ")


async def test_merging_twice_is_merging_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"a.txt": "one\n"})
        await w.commit("T-1", "One")
        first = await w.merge(["T-1"])
        assert await w.merge(["T-1"]) == first
        await w.open_worktree("T-2")
        assert (await w.merge(["T-2"]))[0].commit == first[0].commit


async def test_a_resolution_that_is_in_no_commit_is_waited_for(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        await commit_two(w, write(a_txt="one\n"), write(a_txt="two\n"))
        await w.merge(["T-1", "T-2"])
        task = w.worktree("T-2").path
        put(task, {"a.txt": "both\n"})
        git(task, "add", "--all")
        assert await w.merge(["T-2"]) == [MergeResult("T-2", None)]
        await w.commit("T-2", "Both")
        assert (await w.merge(["T-2"]))[0].commit is not None


async def test_a_resolution_that_git_remembers_is_a_conflict_to_look_at(repo: UserRepository, home: str) -> None:
    repo.config("rerere.enabled", "true")
    repo.config("rerere.autoUpdate", "true")
    async with working_on(repo, home) as w:
        await commit_two(w, write(a_txt="one\n"), write(a_txt="two\n"))
        await w.merge(["T-1", "T-2"])
        task = w.worktree("T-2").path
        put(task, {"a.txt": "both\n"})
        await w.commit("T-2", "Both")
        git(task, "reset", "--quiet", "--hard", "HEAD^1")
        await w.effects.run.append(TaskCommitted(task_id="T-2", commit=await w.tip("T-2")))
        assert (await w.merge(["T-2"]))[0].conflicts == ("a.txt",)
        assert text(task, "a.txt") == "both\n"
        assert await w.commit("T-2", "Both") is not None
    repo.remember()  # what git remembers of conflicts is for the user's next one too


@pytest.mark.parametrize("hook", ["pre-merge-commit", "commit-msg"])
async def test_a_refusing_hook_takes_the_merge_back(repo: UserRepository, home: str, hook: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"new.txt": "one\n", "a.txt": "one\n"})
        await w.commit("T-1", "One")
        repo.hook(hook, "echo not today; exit 1")
        run = w.worktree().path
        before = files_of(run, "HEAD"), git(run, "rev-parse", "HEAD")
        with pytest.raises(HookRefused, match=r"^a commit hook refused: not today"):
            await w.merge(["T-1"])
        assert (files_of(run, "HEAD"), git(run, "rev-parse", "HEAD")) == before
        assert git(run, "status", "--porcelain") == ""
        repo.hook(hook, "exit 0")
        assert (await w.merge(["T-1"]))[0].commit is not None


async def test_a_merge_that_breaks_off_in_the_middle_is_taken_back(
    repo: UserRepository, home: str, folder: str
) -> None:
    """A filter that fails on one file leaves the others written already."""
    program = put_program(os.path.join(folder, "filter"), "case $1 in *fails) exit 1;; esac; cat")
    repo.config("filter.odd.clean", "cat")
    repo.config("filter.odd.smudge", f"{program} %f")
    repo.config("filter.odd.required", "true")
    async with working_on(repo, home) as w:
        task, run = await w.open_worktree("T-1"), w.worktree()
        put(task.path, {".gitattributes": "*fails filter=odd\n", "a.txt": "one\n", "new": "new\n", "z-fails": "x\n"})
        await w.commit("T-1", "One")
        with pytest.raises(GitFailed, match="z-fails: smudge filter odd failed"):
            await w.merge(["T-1"])
        assert git(run.path, "status", "--porcelain") == ""
        repo.config("filter.odd.smudge", "cat")
        assert (await w.merge(["T-1"]))[0].commit is not None


async def test_changes_in_the_runs_worktree_are_not_merged_over(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        put((await w.open_worktree("T-1")).path, {"a.txt": "one\n"})
        await w.commit("T-1", "One")
        run = w.worktree().path
        put(run, {"stray.txt": "stray\n"})
        with pytest.raises(Denied, match="has uncommitted changes; commit them or move them away, and resume"):
            await w.merge(["T-1"])
        assert text(run, "stray.txt") == "stray\n"


async def test_what_is_not_in_a_tasks_commit_is_saved_before_conflicts_come(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        await commit_two(w, write(a_txt="one\n"), write(a_txt="two\n"))
        await w.merge(["T-1"])
        task = w.worktree("T-2").path
        put(task, {"a.txt": "in no commit\n"})
        assert (await w.merge(["T-2"]))[0].conflicts == ("a.txt",)
        assert "in no commit" not in text(task, "a.txt")
        (saved,) = git(repo.path, "for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").splitlines()
        assert git(repo.path, "show", f"{saved}:a.txt") == "in no commit"
