"""Tells a worktree whose creation was killed from one that contains work.

A killed checkout leaves complete or truncated files of the commit, and often no index: git then reports all as new.
"""

import os
import tempfile

from holdfast.core.work.names import is_temporary_name
from holdfast.git.locks import INDEX_COPY
from holdfast.git.worktrees.worktree import Worktree


async def has_work(worktree: Worktree, *commits: str) -> bool:
    """True when there is a file that is neither in one of these commits, nor the beginning of a file in one."""
    found = [await _files_not_in(worktree, commit) for commit in commits]
    return bool(set.intersection(*found))


async def _files_not_in(worktree: Worktree, commit: str) -> set[str]:
    """Return the files that a checkout of this commit does not explain."""
    git = worktree.git
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=worktree.must_be_ours()) as folder:
        env = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        await git.execute("read-tree", commit, extra_env=env)
        await git.try_execute("update-index", "--refresh", "-q", extra_env=env)  # exits non-zero when files differ
        differing = await git.try_execute("diff-files", "--name-only", "--diff-filter=d", "-z", extra_env=env)
        untracked = await git.try_execute("ls-files", "--others", "--exclude-standard", "-z", extra_env=env)
    changed = [path for path in differing.fields() if not await _is_truncated(worktree, commit, path)]
    return {*changed, *(path for path in untracked.fields() if not is_temporary_name(path))}


async def _is_truncated(worktree: Worktree, commit: str, path: str) -> bool:
    file_path = os.path.join(worktree.path, path)
    if os.path.islink(file_path) or not os.path.isfile(file_path):
        return False
    committed = await worktree.git.run("cat-file", "--filters", f"{commit}:{path}")
    with open(file_path, "rb") as file:
        return committed.code == 0 and committed.stdout.startswith(file.read())
