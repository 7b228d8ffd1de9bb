"""A worktree is captured again only when something changed."""

import json
import os
import time

import pytest

from holdfast.git.snapshot import WorktreeSnapshot, capture
from holdfast.git.worktrees.worktree import Worktree
from tests.support.repositories import UserRepository, git, put, put_program, text, working_on
from tests.support.wait import until

TASK = "T-1"
COARSE_CLOCK = 5  # CLOCK_REALTIME_COARSE of Linux


async def settled(path: str) -> None:
    """Wait until the coarse clock is past the file: one that is as new as its capture proves nothing.

    Some kernels stamp a file finer than that clock.
    """
    await until(lambda: time.clock_gettime_ns(COARSE_CLOCK) > os.stat(path).st_ctime_ns)


async def twice(task: Worktree, between: object = None) -> tuple[WorktreeSnapshot, WorktreeSnapshot]:
    for name in ("new.txt", "a.txt"):
        await settled(os.path.join(task.path, name))
    first = await capture(task, "One")
    if callable(between):
        between()
    return first, await capture(task, "Two")


async def test_unchanged_worktree_is_captured_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"new.txt": "new\n", "a.txt": "changed\n"})
        first, second = await twice(task)
        assert second == first
        assert first.tree == git(task.path, "rev-parse", f"{first.oid}^{{tree}}")


@pytest.mark.parametrize(
    "change", ["content", "same size", "mode", "new", "deleted", "staged", "committed", "ignored now"]
)
async def test_changed_worktree_is_captured_again(repo: UserRepository, home: str, change: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"new.txt": "new\n"})
        file = os.path.join(task.path, "new.txt")

        def between() -> None:
            before = os.stat(file)
            match change:
                case "content":
                    put(task.path, {"new.txt": "newer\n"})
                case "same size":
                    put(task.path, {"new.txt": "old\n"})
                    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
                case "mode":
                    os.chmod(file, 0o755)
                case "new":
                    put(task.path, {"more.txt": "more\n"})
                case "deleted":
                    os.unlink(os.path.join(task.path, "b.txt"))
                case "staged":
                    git(task.path, "add", "new.txt")
                case "committed":
                    git(task.path, "commit", "--quiet", "--allow-empty", "--message=Mine")
                case "ignored now":
                    put(task.path, {".gitignore": "new.txt\n"})

        first, second = await twice(task, between)
        assert second.oid != first.oid
        expected = {name: text(task.path, name) for name in ("new.txt",) if change != "ignored now"}
        listed = git(task.path, "ls-tree", "-r", "--name-only", second.oid).splitlines()
        assert {
            name: git(task.path, "show", f"{second.oid}:{name}") + "\n" for name in listed if name == "new.txt"
        } == expected


async def test_lost_capture_is_made_again(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"new.txt": "new\n"})
        await settled(os.path.join(task.path, "new.txt"))
        first = await capture(task, "One")
        os.unlink(os.path.join(repo.git_dir, "objects", first.oid[:2], first.oid[2:]))
        second = await capture(task, "One")
        assert git(task.path, "cat-file", "-t", second.oid) == "commit"


async def test_hooks_still_run_on_a_known_tree(repo: UserRepository, home: str, folder: str) -> None:
    """The hook sees an index that git has refreshed, with exactly the tree."""
    seen = os.path.join(folder, "seen")
    put_program(
        os.path.join(repo.git_dir, "hooks", "pre-commit"),
        f"git diff-files --name-only > {seen}; git write-tree >> {seen}",
    )
    repo.remember()
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"new.txt": "new\n", "a.txt": "changed\n"})
        commit = await w.commit(TASK, "Do it")
        assert json.dumps(text(folder, "seen").split()) == json.dumps(
            [git(task.path, "rev-parse", f"{commit}^{{tree}}")]
        )
