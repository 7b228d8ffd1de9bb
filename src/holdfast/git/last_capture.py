"""Recognizes a worktree that did not change since it was last captured, so that its tree is not built a second time.

Git itself says which files differ from HEAD. Each of these is compared by its stamps (inode, size, times), as git does
for its index. Stamps that are as new as the capture prove nothing: a later write might leave them the same.
"""

import os
import stat
import time
from typing import NamedTuple

from holdfast.git.ref_files import AskGit, read_head
from holdfast.git.worktrees.worktree import Status, Worktree

_SETTINGS = ("config", "config.worktree", os.path.join("info", "attributes"), os.path.join("info", "exclude"))

_FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE of Linux, which stamps files

Stamp = tuple[int, ...]


class LastCapture(NamedTuple):
    """What a worktree was at a capture, and the result.

    `git_files` are the stamps of HEAD and the index; `files` of the settings and the changed files.
    """

    head: str
    status: Status
    git_files: tuple[Stamp | None, ...]
    files: tuple[Stamp | None, ...]
    commit: str | None = None
    tree: str | None = None


def observe(worktree: Worktree, status: Status) -> LastCapture | None:
    """Return what `status` holds for; None when that cannot be recognized later. Called right after `git status`."""
    now = time.clock_gettime_ns(_FILE_CLOCK)
    git_dir, common_dir = worktree.must_be_ours(), worktree.repository.common_dir
    try:
        head = read_head(git_dir)
    except AskGit:
        return None
    index = tuple(_stamp(os.path.join(git_dir, name)) for name in ("index", "HEAD"))
    settings = [os.path.join(folder, name) for folder in (common_dir, git_dir) for name in _SETTINGS]
    files = [os.path.join(worktree.path, change.path) for change in status.changes]
    found = LastCapture(head, status, index, tuple(_stamp(path) for path in (*settings, *files)))
    if any(stamp is not None and stat.S_ISDIR(stamp[2]) for stamp in found.files):
        return None  # another repository, whose changes its own git knows
    return found if all(stamp is None or max(stamp[-2:]) < now for stamp in (*found.git_files, *found.files)) else None


def recall(worktree: Worktree, seen: LastCapture | None) -> LastCapture | None:
    """Return the last capture of this worktree if it was of exactly what was `seen` now."""
    last = worktree.repository.captures.get(worktree.path)
    if not isinstance(last, LastCapture):
        return None
    return last if last._replace(commit=None, tree=None) == seen else None


def remember(worktree: Worktree, seen: LastCapture | None) -> None:
    if seen is None:
        worktree.repository.captures.pop(worktree.path, None)
    else:
        worktree.repository.captures[worktree.path] = seen


async def last_status(worktree: Worktree) -> Status | None:
    """Return the status of the last capture, if HEAD and the index are as they were then; else None.

    What differs in the files may be out of date; what is staged or unmerged is not.
    """
    last = worktree.repository.captures.get(worktree.path)
    if not isinstance(last, LastCapture):
        return None
    git_dir = worktree.must_be_ours()
    if last.git_files != tuple(_stamp(os.path.join(git_dir, name)) for name in ("index", "HEAD")):
        return None
    return last.status._replace(head=await worktree.head_commit())


def _stamp(path: str) -> Stamp | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
