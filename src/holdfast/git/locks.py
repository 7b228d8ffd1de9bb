"""Finds and removes what a killed git left: lock files, and our own copies of an index.

An open descriptor does not prove that git is running: git closes the index lock and keeps it while it runs a hook.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress

from holdfast.git.worktree_admin import folders_of
from holdfast.leaf.errors import Denied
from holdfast.leaf.process.fd_marker import is_open_in_any_process
from holdfast.leaf.process.identity import has_hidden_process, pids_working_in

INDEX_COPY = "holdfast-index-"  # the folder of an index copy, in the worktree's git directory

_LOCK_SUFFIX = ".lock"
_PACKED_REFS_LOCKS = ("packed-refs.lock", "packed-refs.new")
_REPOSITORY_LOCKS = (*_PACKED_REFS_LOCKS, "config.lock", "shallow.lock")
_WAIT_S = 5.0  # for other git processes of the repository to end
_POLL_INTERVAL_S = 0.05


def clear_locks(folder: str, git_dir: str, branch: str) -> None:
    """Remove the stale locks of one worktree and of its branch; raises `Denied` when git is running there."""
    names = os.listdir(git_dir)
    for lock in (
        *(os.path.join(git_dir, name) for name in names if name.endswith(_LOCK_SUFFIX)),
        f"{branch}{_LOCK_SUFFIX}",
    ):
        if not remove_stale(lock, folder, git_dir):
            raise Denied(f"git is running in {folder} ({lock} is held); wait until it ends, or stop it, and try again")
    copies = [name for name in names if name.startswith(INDEX_COPY)]
    if copies and not pids_working_in("git", folder):
        for name in copies:
            shutil.rmtree(os.path.join(git_dir, name), ignore_errors=True)


def clear_ref_locks(common_dir: str, *refs: str) -> None:
    """Remove the locks of these refs and of all refs below them. Only for refs that only the run itself moves."""
    for lock in _ref_locks(common_dir, refs):
        if not is_open_in_any_process(lock):
            with suppress(FileNotFoundError):
                os.unlink(lock)


async def clear_packed_refs_locks(common_dir: str) -> None:
    """Remove the locks of a killed ref deletion: they block the user's own deletions too."""
    for lock in _shared_locks(common_dir, _PACKED_REFS_LOCKS):
        await clear_lock(lock, *folders_of(common_dir))


async def clear_lock(lock: str, *folders: str) -> None:
    """Remove a lock that other processes use too, once no git runs in these folders; after a while, leave it."""
    deadline = asyncio.get_running_loop().time() + _WAIT_S
    while os.path.lexists(lock) and not remove_stale(lock, *folders):
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(_POLL_INTERVAL_S)


def clear_shared_locks(common_dir: str, *prefixes: str) -> None:
    """Remove stale locks of the whole repository and of the refs under these prefixes.

    Leaves a lock that is held: git reports it to the next command that needs it.
    """
    locks = (*_shared_locks(common_dir), *_ref_locks(common_dir, prefixes))
    folders = folders_of(common_dir) if locks else []
    for lock in locks:
        remove_stale(lock, *folders)


def stale_locks(common_dir: str) -> list[str]:
    """Return the stale locks of the whole repository: they block every git command of the user too."""
    locks, found = _shared_locks(common_dir), []
    folders = folders_of(common_dir) if locks else []
    for lock in locks:
        with suppress(FileNotFoundError):  # its holder released it
            if is_stale(lock, *folders):
                found.append(lock)
    return found


def _shared_locks(common_dir: str, names: Iterable[str] = _REPOSITORY_LOCKS) -> list[str]:
    return [lock for name in names if os.path.lexists(lock := os.path.join(common_dir, name))]


def _ref_locks(common_dir: str, prefixes: Iterable[str]) -> list[str]:
    found = []
    for prefix in prefixes:
        path = os.path.join(common_dir, prefix)
        found += [f"{path}{_LOCK_SUFFIX}"] if os.path.lexists(f"{path}{_LOCK_SUFFIX}") else []
        for folder, _, names in os.walk(path):
            found += [os.path.join(folder, name) for name in names if name.endswith(_LOCK_SUFFIX)]
    return found


def remove_stale(lock: str, *folders: str) -> bool:
    """Remove a stale lock. False when it is held, or was replaced by a new one during the check."""
    try:
        before = os.lstat(lock)
        if not is_stale(lock, *folders):
            return False
        now = os.lstat(lock)
        if (now.st_ino, now.st_mtime_ns) != (before.st_ino, before.st_mtime_ns):
            return False
        os.unlink(lock)
    except FileNotFoundError:
        pass  # its holder released it
    return True


def is_stale(lock: str, *folders: str) -> bool:
    """True when no process has the lock open, and no git runs in any of these folders.

    The working directory of another user's git may be hidden from us; then the lock counts as held.
    """
    is_git_running = bool(pids_working_in("git", *folders)) or has_hidden_process("git", os.lstat(lock).st_uid)
    return not is_git_running and not is_open_in_any_process(lock)  # the second takes longer
