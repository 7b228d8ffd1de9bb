"""A worktree's folder that somebody deleted: what git still has of it is saved before its entry goes."""

import asyncio
import os
import shutil

import pytest

from holdfast.engine.retiring import archive
from holdfast.leaf.errors import Denied
from tests.support.repositories import UserRepository, git, half_deleted, put, working_on


async def test_what_was_staged_in_it_is_saved_when_it_is_removed(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open("T-1")).path
        put(task, {"staged.txt": "only in the index\n"})
        git(task, "add", "staged.txt")
        shutil.rmtree(task)
        saved = await w.remove("T-1")
        assert saved is not None
        assert git(repo.path, "show", f"{saved}:staged.txt") == "only in the index"


async def test_commits_that_no_branch_has_are_saved_when_it_is_made_again(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open("T-1")).path
        git(task, "switch", "--quiet", "--detach")
        put(task, {"aside.txt": "aside\n"})
        git(task, "add", "--all")
        git(task, "commit", "--quiet", "--message=Aside")
        shutil.rmtree(task)
        await w.open("T-1")
        (saved,) = git(repo.path, "for-each-ref", "--format=%(refname)", w.place("T-1").salvage).splitlines()
        assert git(repo.path, "show", f"{saved}:aside.txt") == "aside"


async def test_nothing_is_saved_of_what_its_branch_has(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = (await w.open("T-1")).path
        put(task, {"a.txt": "done\n"})
        await w.commit("T-1", "Done")
        shutil.rmtree(task)
        assert await w.remove("T-1") is None


async def test_its_last_snapshot_outlives_the_run(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        run_id, task = w.run_id, (await w.open("T-1")).path
        for turn in ("first", "last"):
            put(task, {"notes.txt": f"{turn}\n"})
            await w.snapshot("T-1", turn)
            await asyncio.sleep(1.1)  # git's time has no more than seconds
        shutil.rmtree(task)
    (saved,) = await archive(home, run_id)
    assert git(repo.path, "show", f"{saved}:notes.txt") == "last"


async def test_several_are_removed_at_once(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        for number in range(4):
            put((await w.open(f"T-{number}")).path, {"new.txt": f"{number}\n"})
        saved = await asyncio.gather(*(w.remove(f"T-{number}") for number in range(4)))
        assert [git(repo.path, "show", f"{ref}:new.txt") for ref in saved] == ["0", "1", "2", "3"]
        assert os.listdir(os.path.join(w.hands.folder, "tasks")) == []
        assert half_deleted(w.hands.folder) == []


async def test_a_commit_on_a_branch_that_is_gone_is_refused_in_one_clear_line(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        task = await w.open("T-1")
        put(task.path, {"new.txt": "new\n"})
        git(repo.path, "update-ref", "-d", f"refs/heads/{task.branch}")
        with pytest.raises(Denied, match=r"the branch .* is not there any more; `git branch .* COMMIT` brings it back"):
            await w.commit("T-1", "New")
