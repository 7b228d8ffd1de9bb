"""What a killed git leaves behind: lock files, and our own copies of an index; and how to tell it from one at work.

An open descriptor is not enough to tell: git closes the index's lock and keeps it while it runs a hook.
"""

import asyncio
import os
import shutil
from contextlib import suppress

from holdfast.leaf.errors import Denied
from holdfast.leaf.process import at_work_in, has_open

INDEX_COPY = "holdfast-index-"  # the folder of an index copy, in the worktree's git directory

_LOCK = ".lock"
_PACKED_REFS = ("packed-refs.lock", "packed-refs.new")
_IN_REPOSITORY = (*_PACKED_REFS, "config.lock", "shallow.lock")
_PATIENCE = 5.0  # seconds: other gits of the repository come and go
_MOMENT = 0.05


def clear_locks(folder: str, git_dir: str, *others: str) -> None:
    """Remove the locks of one worktree; `Denied` when somebody is at work there."""
    names = os.listdir(git_dir)
    for lock in (*(os.path.join(git_dir, name) for name in names if name.endswith(_LOCK)), *others):
        if os.path.lexists(lock):
            if not is_stale(lock, folder, git_dir):
                raise Denied(f"git is at work in {folder} ({lock} is held); wait for it, or end it, and try again")
            _remove(lock)
    copies = [name for name in names if name.startswith(INDEX_COPY)]
    if copies and not at_work_in(folder, "git"):
        for name in copies:
            shutil.rmtree(os.path.join(git_dir, name), ignore_errors=True)


def clear_ref_locks(common_dir: str, *refs: str) -> None:
    """Remove the locks of these refs, and of all below them. Only for refs that nobody but a run itself moves."""
    for ref in refs:
        path = os.path.join(common_dir, ref)
        _remove_unheld(f"{path}{_LOCK}")
        for where, _, names in os.walk(path):
            for name in names:
                if name.endswith(_LOCK):
                    _remove_unheld(os.path.join(where, name))


async def clear_packed_refs_locks(common_dir: str) -> None:
    """Remove what a killed deletion of a ref left: it stops the user's own deletions too."""
    for name in _PACKED_REFS:
        await clear_lock(os.path.join(common_dir, name), common_dir, os.path.dirname(common_dir))


async def clear_lock(lock: str, *folders: str) -> None:
    """Remove a lock that others may take as well, once no git is at work in these folders; else leave it to them."""
    until = asyncio.get_running_loop().time() + _PATIENCE
    while os.path.lexists(lock):
        if is_stale(lock, *folders):
            _remove(lock)
        elif asyncio.get_running_loop().time() > until:
            return
        else:
            await asyncio.sleep(_MOMENT)


def stale_locks(common_dir: str) -> list[str]:
    """Locks of the repository as a whole that nobody holds: they would stop every git command of its user too."""
    locks = [os.path.join(common_dir, name) for name in _IN_REPOSITORY]
    folders = (common_dir, os.path.dirname(common_dir))
    return [lock for lock in locks if os.path.lexists(lock) and is_stale(lock, *folders)]


def is_stale(lock: str, *folders: str) -> bool:
    """True when no process has the lock open, and no git stands in any of these folders."""
    return not has_open(lock) and not any(at_work_in(folder, "git") for folder in folders)


def _remove_unheld(lock: str) -> None:
    if os.path.lexists(lock) and not has_open(lock):
        _remove(lock)


def _remove(lock: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(lock)
