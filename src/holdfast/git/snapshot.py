"""The whole state of a worktree — staged, unstaged, untracked, not ignored — as a commit under our own refs.

The worktree is not disturbed: a copy of its index takes in everything, so git's knowledge of what is unchanged
makes it about as cheap as `git status`. A clean worktree needs no commit: its snapshot is HEAD. Otherwise the
commit's tree is the files as they are, its first parent is HEAD, and where something was staged its second parent
holds the index. Repositories inside the worktree are named, for what they hold beyond their own commits is not in it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.git.process import Git
from holdfast.git.repository import Repository
from holdfast.git.worktree import Status, Worktree, status_of

REFS = "refs/holdfast"
INDEX_COPY = "holdfast-index-"  # the folder of an index copy, in the worktree's git directory

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "holdfast@localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "holdfast@localhost",
}


class Snapshot(NamedTuple):
    """`left_out` are repositories inside the worktree, of which only the commit they are at is saved."""

    oid: str
    head: str
    clean: bool
    left_out: tuple[str, ...] = ()


async def take_snapshot(worktree: Worktree, ref: str, message: str) -> Snapshot:
    """Save the worktree's state under a ref, which is made or moved."""
    git_dir = await worktree.must_be_ours()
    snapshot = await _captured(worktree, git_dir, await status_of(worktree), message)
    await worktree.repository.set_ref(ref, snapshot.oid)
    return snapshot


async def _captured(worktree: Worktree, git_dir: str, status: Status, message: str) -> Snapshot:
    if status.clean:
        return Snapshot(status.head, status.head, clean=True)
    with _copy_of_index(git_dir) as index:
        using = {"GIT_INDEX_FILE": index, **_IDENTITY}
        staged = await _staged(worktree.git, status, using)
        empty = [
            f":(exclude,top,literal){change.path}"
            for change in status.changes
            if change.status == "??" and change.foreign
        ]
        await worktree.git.do("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--", ":/", *empty, more=using)
        tree = (await worktree.git.do("write-tree", more=using)).text
        parents = [status.head, *([staged] if staged is not None else [])]
        listed = [argument for parent in parents for argument in ("-p", parent)]
        oid = (await worktree.git.do("commit-tree", tree, *listed, "-m", message, more=using)).text
    left_out = tuple(change.path for change in status.changes if change.foreign)
    return Snapshot(oid, status.head, clean=False, left_out=left_out)


async def _staged(git: Git, status: Status, using: dict[str, str]) -> str | None:
    """A commit of what was staged; None when nothing was, or a conflict is still in the index."""
    if all(change.status[0] in ".?" for change in status.changes):
        return None
    answer = await git.run("write-tree", more=using)
    if answer.code:
        return None
    return (await git.do("commit-tree", answer.text, "-p", status.head, "-m", "staged", more=using)).text


async def restore_snapshot(worktree: Worktree, oid: str) -> None:
    """Bring the files, and what was staged, back to a snapshot. The branch must be where the snapshot's HEAD was.

    What stands there now must have been saved before: this overwrites it.
    """
    await worktree.must_be_ours()
    parents = (await worktree.git.ask("rev-parse", f"{oid}^@")).lines
    staged = parents[1] if len(parents) > 1 else None
    await worktree.git.do("read-tree", "--reset", "-u", f"{oid}^{{tree}}")
    await worktree.git.do("clean", "-d", "--force", "--quiet")
    await worktree.git.do("read-tree", "--reset", f"{staged or 'HEAD'}^{{tree}}")
    await worktree.git.run("update-index", "--refresh", "-q")


async def snapshots(repository: Repository, prefix: str) -> dict[str, str]:
    return await repository.refs(prefix)


async def diff(repository: Repository, old: str, new: str, *options: str) -> str:
    """What changed between any two snapshots or commits."""
    answer = await repository.git.ask("diff", "--no-ext-diff", "--no-color", *options, old, new, "--")
    return answer.out.decode(errors="replace")


@contextmanager
def _copy_of_index(git_dir: str) -> Iterator[str]:
    """A copy beside the index. One that a kill leaves behind is in a temporary folder of its own, and harmless."""
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=git_dir) as folder:
        copy = os.path.join(folder, "index")
        shutil.copyfile(os.path.join(git_dir, "index"), copy)
        yield copy
