"""What a killed git leaves behind: lock files, and our own copies of an index; and how to tell it from one at work.

An open descriptor is not enough to tell: git closes the index's lock and keeps it while it runs a hook.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress

from holdfast.git.worktree_admin import folders_of
from holdfast.leaf.errors import Denied
from holdfast.leaf.process.fd_marker import has_open
from holdfast.leaf.process.identity import at_work_in, is_hidden

INDEX_COPY = "holdfast-index-"  # the folder of an index copy, in the worktree's git directory

_LOCK = ".lock"
_PACKED_REFS = ("packed-refs.lock", "packed-refs.new")
_IN_REPOSITORY = (*_PACKED_REFS, "config.lock", "shallow.lock")
_PATIENCE = 5.0  # seconds: other gits of the repository come and go
_MOMENT = 0.05


def clear_locks(folder: str, git_dir: str, branch: str) -> None:
    """Remove the locks of one worktree, and of its branch; `Denied` when somebody is at work there."""
    names = os.listdir(git_dir)
    for lock in (*(os.path.join(git_dir, name) for name in names if name.endswith(_LOCK)), f"{branch}{_LOCK}"):
        if not remove_stale(lock, folder, git_dir):
            raise Denied(f"git is at work in {folder} ({lock} is held); wait for it, or end it, and try again")
    copies = [name for name in names if name.startswith(INDEX_COPY)]
    if copies and not at_work_in(folder, "git"):
        for name in copies:
            shutil.rmtree(os.path.join(git_dir, name), ignore_errors=True)


def clear_ref_locks(common_dir: str, *refs: str) -> None:
    """Remove the locks of these refs, and of all below them. Only for refs that nobody but a run itself moves."""
    for lock in _on_refs(common_dir, refs):
        if not has_open(lock):
            with suppress(FileNotFoundError):
                os.unlink(lock)


async def clear_packed_refs_locks(common_dir: str) -> None:
    """Remove what a killed deletion of a ref left: it stops the user's own deletions too."""
    for name in _PACKED_REFS:
        await clear_lock(os.path.join(common_dir, name), *folders_of(common_dir))


async def clear_lock(lock: str, *folders: str) -> None:
    """Remove a lock that others may take as well, once no git is at work in these folders; else leave it to them."""
    until = asyncio.get_running_loop().time() + _PATIENCE
    while os.path.lexists(lock) and not remove_stale(lock, *folders):
        if asyncio.get_running_loop().time() > until:
            return
        await asyncio.sleep(_MOMENT)


def clear_shared_locks(common_dir: str, *prefixes: str) -> None:
    """Remove the locks that nobody holds of the repository as a whole, and of the refs under these prefixes.

    A lock that is held is left: whoever needs the same will be told by git.
    """
    folders = folders_of(common_dir)
    for lock in (*_shared(common_dir), *_on_refs(common_dir, prefixes)):
        remove_stale(lock, *folders)


def stale_locks(common_dir: str) -> list[str]:
    """Locks of the repository as a whole that nobody holds: they would stop every git command of its user too."""
    folders, found = folders_of(common_dir), []
    for lock in _shared(common_dir):
        with suppress(FileNotFoundError):  # it went by itself
            if is_stale(lock, *folders):
                found.append(lock)
    return found


def _shared(common_dir: str) -> list[str]:
    return [lock for name in _IN_REPOSITORY if os.path.lexists(lock := os.path.join(common_dir, name))]


def _on_refs(common_dir: str, prefixes: Iterable[str]) -> list[str]:
    found = []
    for prefix in prefixes:
        place = os.path.join(common_dir, prefix)
        found += [f"{place}{_LOCK}"] if os.path.lexists(f"{place}{_LOCK}") else []
        for folder, _, names in os.walk(place):
            found += [os.path.join(folder, name) for name in names if name.endswith(_LOCK)]
    return found


def remove_stale(lock: str, *folders: str) -> bool:
    """Remove a lock that nobody holds. False when somebody does, or another one was taken while we looked."""
    try:
        before = os.lstat(lock)
        if not is_stale(lock, *folders):
            return False
        now = os.lstat(lock)
        if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
            return False
        os.unlink(lock)
    except FileNotFoundError:
        pass  # it went by itself
    return True


def is_stale(lock: str, *folders: str) -> bool:
    """True when no process has the lock open, and no git stands in any of these folders.

    Where the git of whoever made the lock stands, another user may not see; then it could be there.
    """
    at_work = any(at_work_in(folder, "git") for folder in folders) or is_hidden("git", os.lstat(lock).st_uid)
    return not has_open(lock) and not at_work
