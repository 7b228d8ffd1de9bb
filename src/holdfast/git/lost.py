"""What a power cut leaves of objects that nobody synced: files without content.

Git takes such a file for the object: it does not write it again, and fails when it reads it. By default git syncs
refs, but not loose objects, so a branch may name a commit that is empty. Ours are synced; an agent's own are not.
"""

import os
from contextlib import suppress

from holdfast.git.worktree import Worktree

_FAN_OUT = 2  # letters of a loose object's name that are its folder's


def empty_objects(common_dir: str) -> list[str]:
    """The files of objects without content."""
    objects, found = os.path.join(common_dir, "objects"), []
    for name in os.listdir(objects):
        if len(name) == _FAN_OUT:
            with os.scandir(os.path.join(objects, name)) as entries:
                found += [entry.path for entry in entries if entry.stat(follow_symlinks=False).st_size == 0]
    return found


async def set_back(worktree: Worktree, base: str) -> None:
    """A branch whose newest commits are lost is brought back to the newest that is whole; one that is whole is left.

    The files stay as they are: what was in the lost commits is in them, as far as it is anywhere.
    """
    ref = f"refs/heads/{worktree.branch}"
    at = (await worktree.repository.git.run("rev-parse", "--verify", "--quiet", ref)).text
    if not at or await _is_whole(worktree, at, base):
        return
    whole = await _newest_whole(worktree, base)
    if os.path.isdir(worktree.path):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(worktree.must_be_ours(), "index"))  # it may name what is lost
        await worktree.git.do("read-tree", whole)
    await worktree.repository.set_ref(ref, whole)


async def _newest_whole(worktree: Worktree, base: str) -> str:
    for commit in _passed_by(worktree):
        if await _is_whole(worktree, commit, base):
            return commit
    return base


async def _is_whole(worktree: Worktree, commit: str, base: str) -> bool:
    answer = await worktree.repository.git.run("rev-list", "--objects", "--quiet", commit, "--not", base)
    return answer.code == 0


def _passed_by(worktree: Worktree) -> list[str]:
    """Every commit that its branch was at, the newest first, by git's own journal of it."""
    path = os.path.join(worktree.repository.common_dir, "logs", "refs", "heads", worktree.branch)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    return [words[1] for words in (line.split(" ", 2) for line in reversed(lines)) if len(words) > 1]
