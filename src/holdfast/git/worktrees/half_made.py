"""Tells a worktree whose making was killed from one that somebody worked in.

A killed checkout leaves files of the commit, whole or cut short, and often no index: git then calls all of them new.
"""

import os
import tempfile

from holdfast.core.work.names import is_half_written
from holdfast.git.locks import INDEX_COPY
from holdfast.git.worktrees.worktree import Worktree


async def holds_work(worktree: Worktree, *commits: str) -> bool:
    """True when a file is there that is neither of any of these commits, nor the beginning of one."""
    found = [await _not_of(worktree, commit) for commit in commits]
    return bool(set.intersection(*found))


async def _not_of(worktree: Worktree, commit: str) -> set[str]:
    """The files that git would not have written from this commit."""
    git = worktree.git
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=worktree.must_be_ours()) as folder:
        using = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        await git.do("read-tree", commit, more=using)
        await git.try_to("update-index", "--refresh", "-q", more=using)  # its code tells of files that differ
        differing = await git.try_to("diff-files", "--name-only", "--diff-filter=d", "-z", more=using)
        others = await git.try_to("ls-files", "--others", "--exclude-standard", "-z", more=using)
    changed = [path for path in differing.fields() if not await _is_beginning(worktree, commit, path)]
    return {*changed, *(path for path in others.fields() if not is_half_written(path))}


async def _is_beginning(worktree: Worktree, commit: str, path: str) -> bool:
    place = os.path.join(worktree.path, path)
    if os.path.islink(place) or not os.path.isfile(place):
        return False
    whole = await worktree.git.run("cat-file", "--filters", f"{commit}:{path}")
    with open(place, "rb") as file:
        return whole.code == 0 and whole.out.startswith(file.read())
