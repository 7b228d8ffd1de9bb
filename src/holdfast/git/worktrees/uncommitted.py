"""The uncommitted changes of the user's checkout: which files they are, and a tree that contains them.

Reads the checkout and writes objects. The index and the files of the checkout stay as they are.
"""

import os
import shutil
import tempfile
from typing import NamedTuple

from holdfast.git.process import Git
from holdfast.git.repository import Repository
from holdfast.git.worktrees.in_progress import operation_in_progress
from holdfast.git.worktrees.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import BadInput

_MAX_NAMED = 5
_ADD_OPTIONS = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false")


class UncommittedTree(NamedTuple):
    """The tree of `head` with the changes on top of it, and the paths that changed."""

    oid: str
    head: str
    paths: tuple[str, ...]


async def uncommitted_paths(repository: Repository, checkout: str) -> list[str]:
    """The changed and the untracked files of a checkout, without ignored ones. `checkout` is its top folder."""
    status = await _status(repository, checkout)
    return [change.path for change in status.changes]


async def read_uncommitted(repository: Repository, checkout: str) -> UncommittedTree:
    """Write a tree of all files of the checkout that git does not ignore."""
    status = await _status(repository, checkout)
    git = Git(checkout, env_markers=repository.env_markers, stay_in_folder=True)
    git_dir = (await git.query("rev-parse", "--absolute-git-dir")).text
    _check_can_be_included(status, checkout, git_dir)
    assert status.head is not None, "a run starts from a commit"
    with tempfile.TemporaryDirectory(prefix="holdfast-changes-") as folder:
        index = os.path.join(folder, "index")
        if os.path.exists(os.path.join(git_dir, "index")):
            shutil.copy2(os.path.join(git_dir, "index"), index)  # with its time: it tells git which files are unchanged
        environment = {"GIT_INDEX_FILE": index}
        await git.execute(*_ADD_OPTIONS, "add", "--all", "--sparse", "--", ":/", extra_env=environment)
        oid = (await git.execute("write-tree", extra_env=environment)).text
    return UncommittedTree(oid, status.head, tuple(change.path for change in status.changes))


async def _status(repository: Repository, checkout: str) -> Status:
    return await status_of(Worktree(repository, checkout, ""))


def _check_can_be_included(status: Status, checkout: str, git_dir: str) -> None:
    """Refuse what would not be the files that the user sees."""
    operation = operation_in_progress(git_dir)
    if operation is not None:
        raise BadInput(f"--include-changes: {operation.describe(checkout)}, then run again")
    if status.unmerged_paths:
        raise BadInput(
            f"--include-changes: {_named(status.unmerged_paths)} have conflicts; resolve them, then run again"
        )
    if status.foreign_paths:
        raise BadInput(
            f"--include-changes: {_named(status.foreign_paths)} are repositories of their own, whose files cannot be "
            "included; commit in them first, or move them out of the checkout"
        )
    if status.unreadable_folders:
        raise BadInput(
            f"--include-changes: git cannot read {_named(list(status.unreadable_folders))}; make it readable"
        )


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_NAMED} more" if paths[_MAX_NAMED:] else ""
    return ", ".join(paths[:_MAX_NAMED]) + more
