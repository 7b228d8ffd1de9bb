"""What a killed git leaves behind: lock files, and our own copies of an index; and how to tell it from one at work.

An open descriptor is not enough to tell: git closes the index's lock and keeps it while it runs a hook.
"""

import os
import shutil
from contextlib import suppress

from holdfast.leaf.errors import Denied
from holdfast.leaf.process import at_work_in, has_open

INDEX_COPY = "holdfast-index-"  # the folder of an index copy, in the worktree's git directory

_IN_WORKTREE = ("index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock", "config.worktree.lock")
_IN_REPOSITORY = ("packed-refs.lock", "config.lock", "shallow.lock")


def clear_locks(folder: str, git_dir: str, *others: str) -> None:
    """Remove the locks of one worktree; `Denied` when somebody is at work there."""
    for lock in (*(os.path.join(git_dir, name) for name in _IN_WORKTREE), *others):
        if os.path.lexists(lock):
            if not is_stale(lock, folder, git_dir):
                raise Denied(f"git is at work in {folder} ({lock} is held); wait for it, or end it, and try again")
            with suppress(FileNotFoundError):
                os.unlink(lock)
    copies = [name for name in os.listdir(git_dir) if name.startswith(INDEX_COPY)]
    if copies and not at_work_in(folder, "git"):
        for name in copies:
            shutil.rmtree(os.path.join(git_dir, name), ignore_errors=True)


def stale_locks(common_dir: str) -> list[str]:
    """Locks of the repository as a whole that nobody holds: they would stop every git command of its user too."""
    locks = [os.path.join(common_dir, name) for name in _IN_REPOSITORY]
    folders = (common_dir, os.path.dirname(common_dir))
    return [lock for lock in locks if os.path.lexists(lock) and is_stale(lock, *folders)]


def is_stale(lock: str, *folders: str) -> bool:
    """True when no process has the lock open, and no git stands in any of these folders."""
    return not has_open(lock) and not any(at_work_in(folder, "git") for folder in folders)
