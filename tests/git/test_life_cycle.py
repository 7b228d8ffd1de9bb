"""From the first worktree to the last merge, on an ordinary repository.

That the user's own stays as it is, byte for byte, is checked at the end of every test of this folder.
"""

import os

from tests.support.repositories import UserRepository, git, put, text, working_on


async def test_a_run_leaves_branches_and_refs_and_nothing_else(repo: UserRepository, home: str) -> None:
    async with working_on(repo, home) as w:
        one, two = await w.open_worktree("T-1"), await w.open_worktree("T-2")
        put(one.path, {"a.txt": "one\n", "new.txt": "new\n"})
        put(two.path, {"src/c.py": "c = 2\n"})
        snapshot = await w.snapshot("T-1", "turn 1")
        put(one.path, {"a.txt": "wrong\n"})
        assert await w.restore("T-1", snapshot) is not None
        assert text(one.path, "a.txt") == "one\n"
        assert await w.commit("T-1", "One") is not None
        assert await w.commit("T-2", "Two") is not None
        assert [merge.conflicts for merge in await w.merge(["T-1", "T-2"])] == [(), ()]
        run = w.worktree()
        assert git(run.path, "status", "--porcelain") == ""
        assert (text(run.path, "a.txt"), text(run.path, "src/c.py")) == ("one\n", "c = 2\n")
        for task in ("T-1", "T-2", None):
            assert await w.remove_worktree(task) is None
            assert not os.path.exists(w.worktree(task).path)
    assert git(repo.path, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert git(repo.path, "for-each-ref", "--format=%(refname)", "refs/heads") == "\n".join(
        [f"refs/heads/holdfast/{w.run_id}/{leaf}" for leaf in ("T-1", "T-2", "main")]
        + ["refs/heads/main", "refs/heads/other"]
    )
