"""A run in a repository with many other worktrees reads no entry but its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.repositories import UserRepository, put, working_on

TASK = "T-1"


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Collect the paths that this process opens. The hook stays, as Python has no way to remove it."""
    found: list[str] = []
    is_on = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_on[0] and event == "open" and isinstance(arguments[0], str):
            found.append(arguments[0])

    sys.addaudithook(note)
    try:
        yield found
    finally:
        is_on[0] = False


def add_others(repo: UserRepository, folder: str, names: list[str]) -> set[str]:
    """Worktrees of the user. Returns the entries of them."""
    for name in names:
        repo.git("worktree", "add", "--quiet", "--detach", os.path.join(folder, "others", name))
    repo.remember()
    entries = os.path.join(repo.git_dir, "worktrees")
    return {os.path.join(entries, name) for name in os.listdir(entries)}


async def test_task_reads_only_its_own_entry(repo: UserRepository, folder: str, home: str) -> None:
    others = add_others(repo, folder, ["feature", "T-2", "T-10x"])
    async with working_on(repo, home) as w:
        with opened_files() as opened:
            task = await w.open_worktree(TASK)
            put(task.path, {"new.txt": "new\n"})
            await w.snapshot(TASK, "turn-1")
            await w.commit(TASK, "Do it")
            await w.merge([TASK])
            await w.remove_worktree(TASK)
    assert not [path for path in opened if os.path.dirname(path) in others]


async def test_deleted_branch_reads_only_where_the_others_are(repo: UserRepository, folder: str, home: str) -> None:
    """Only HEAD: a branch that is checked out is not deleted."""
    others = add_others(repo, folder, ["feature", "T-2"])
    async with working_on(repo, home) as w:
        task = await w.open_worktree(TASK)
        put(task.path, {"new.txt": "new\n"})
        await w.commit(TASK, "Do it")
        await w.merge([TASK])
        with opened_files() as opened:
            await w.delete_worktree_and_branch(TASK)
    assert {os.path.basename(path) for path in opened if os.path.dirname(path) in others} == {"HEAD"}
