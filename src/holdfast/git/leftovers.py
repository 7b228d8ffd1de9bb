"""What a killed git leaves in a worktree of ours: lock files, a merge half way, index copies of a snapshot.

Only to be called when nothing of the old process tree is alive (see `leaf.process`); then a lock that no process
holds open is nobody's.
"""

import os
import shutil

from holdfast.git.snapshot import INDEX_COPY, take_snapshot
from holdfast.git.worktree import Worktree
from holdfast.leaf.errors import Denied
from holdfast.leaf.process import has_open

_LOCKS = ("index.lock", "HEAD.lock", "MERGE_HEAD.lock", "ORIG_HEAD.lock", "config.worktree.lock")


async def clear_leftovers(worktree: Worktree, salvage_ref: str) -> str | None:
    """Make the worktree usable again. Returns the ref under which a half-made merge was saved, if there was one."""
    git_dir = await worktree.must_be_ours()
    for name in _LOCKS:
        _remove_stale_lock(os.path.join(git_dir, name))
    branch = os.path.join(worktree.repository.common_dir, "refs", "heads", f"{worktree.branch}.lock")
    _remove_stale_lock(branch)
    for name in os.listdir(git_dir):
        if name.startswith(INDEX_COPY):
            shutil.rmtree(os.path.join(git_dir, name), ignore_errors=True)
    if not os.path.exists(os.path.join(git_dir, "MERGE_HEAD")):
        return None
    await take_snapshot(worktree, salvage_ref, "A merge that was cut off")
    await worktree.git.do("reset", "--merge")
    return salvage_ref


def _remove_stale_lock(path: str) -> None:
    if not os.path.exists(path):
        return
    if has_open(path):
        raise Denied(f"{path} is held by a process that is alive; end it, or wait for it, and resume")
    os.unlink(path)
