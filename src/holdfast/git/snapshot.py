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

from holdfast.git.locks import INDEX_COPY
from holdfast.git.process import Git, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.worktree import Status, Worktree, status_of
from holdfast.leaf.errors import Denied

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "holdfast@localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "holdfast@localhost",
}


class Snapshot(NamedTuple):
    """`left_out` are repositories inside the worktree, of which no more than the commit they are at is saved."""

    oid: str
    head: str | None
    clean: bool
    left_out: tuple[str, ...] = ()


async def take_snapshot(worktree: Worktree, ref: str, message: str) -> Snapshot:
    """Save the worktree's state under a ref, which is made or moved."""
    snapshot = await capture(worktree, message)
    await worktree.repository.set_ref(ref, snapshot.oid)
    return snapshot


async def capture(worktree: Worktree, message: str) -> Snapshot:
    """The worktree's state as a commit that no ref holds yet."""
    git_dir = worktree.must_be_ours()
    status = await status_of(worktree)
    if status.clean and status.head is not None:
        return Snapshot(status.head, status.head, clean=True)
    with _copy_of_index(git_dir) as index:
        using = {"GIT_INDEX_FILE": index, **_IDENTITY}
        staged = await _staged(worktree.git, status, using)
        oid = await _committed(worktree.git, status, staged, message, using)
    return Snapshot(oid, status.head, clean=False, left_out=tuple(status.foreign))


async def _committed(git: Git, status: Status, staged: str | None, message: str, using: dict[str, str]) -> str:
    nested = [f":(exclude,top,literal){path}" for path in nested_repositories(status)]
    await git.do("-c", "advice.addEmbeddedRepo=false", "add", "--all", "--", ":/", *nested, more=using)
    tree = (await git.do("write-tree", more=using)).text
    parents = [f"-p{parent}" for parent in (status.head, staged) if parent is not None]
    return (await git.do("commit-tree", *parents, "-m", message, tree, more=using)).text


def nested_repositories(status: Status) -> list[str]:
    """Repositories inside the worktree that are no submodules: `git add` would make them such, or fail at them."""
    return [change.path for change in status.changes if change.status == "??" and change.foreign]


async def _staged(git: Git, status: Status, using: dict[str, str]) -> str | None:
    """A commit of what was staged; None when nothing was, or a conflict is still in the index."""
    if not any(change.staged for change in status.changes) or status.unmerged:
        return None
    tree = (await git.do("write-tree", more=using)).text
    parents = [f"-p{status.head}"] if status.head is not None else []
    return (await git.do("commit-tree", *parents, "-m", "What was staged", tree, more=using)).text


async def restore_snapshot(worktree: Worktree, oid: str) -> None:
    """Bring the files, and what was staged, back to a snapshot.

    What stands there now must have been saved before: this overwrites it. The branch stays where it is.
    """
    await worktree.must_be_on_branch()
    await worktree.git.do("read-tree", "--reset", "-u", f"{oid}^{{tree}}")
    await worktree.git.do("clean", "-d", "--force", "--quiet")
    await worktree.git.do("read-tree", "--reset", await _index_of(worktree, oid))
    refreshed = await worktree.git.run("update-index", "--refresh", "-q")  # it fails where a file differs
    if refreshed.code < 0:
        raise GitKilled("update-index", refreshed.code, refreshed.said)


async def _index_of(worktree: Worktree, oid: str) -> str:
    """The tree of what was staged in a snapshot; that of HEAD when nothing was."""
    parents = (await worktree.git.ask("rev-parse", f"{oid}^@")).lines
    staged = await _is_of_ours(worktree.repository, oid) and parents[1:]
    return f"{staged[0] if staged else 'HEAD'}^{{tree}}"


async def _is_of_ours(repository: Repository, oid: str) -> bool:
    """A merge commit has a second parent too; that of a snapshot is what was staged."""
    answer = await repository.git.ask("show", "--no-patch", "--format=%ce", oid)
    return answer.text == _IDENTITY["GIT_COMMITTER_EMAIL"]


async def is_restored(worktree: Worktree, oid: str) -> bool:
    """True when the files are those of the snapshot, and so is what is staged."""
    now = await capture(worktree, "As it is now")
    trees = await worktree.repository.git.ask("rev-parse", f"{now.oid}^{{tree}}", f"{oid}^{{tree}}")
    if len(set(trees.lines)) > 1:
        return False
    index = await worktree.git.run("diff-index", "--cached", "--quiet", await _index_of(worktree, oid), "--")
    return index.code == 0


async def save(worktree: Worktree, ref: str, message: str) -> str | None:
    """Before something forceful: the ref under which a worktree's state was saved; None when its branch has it all.

    What was saved under that ref before is not overwritten. `Denied` when something in it cannot be saved.
    """
    snapshot = await capture(worktree, message)
    if snapshot.left_out:
        raise Denied(
            f"{worktree.path} holds repositories of its own with work in them ({', '.join(snapshot.left_out)}), "
            "which cannot be saved with it; move them away, or commit and push them, and try again"
        )
    repository = worktree.repository
    on_branch = await repository.commit_of(f"refs/heads/{worktree.branch}")
    if snapshot.clean and on_branch is not None and await repository.is_ancestor(snapshot.oid, on_branch):
        return None
    return await repository.keep(ref, snapshot.oid)


async def diff(repository: Repository, old: str, new: str, *options: str) -> bytes:
    """What changed between any two snapshots or commits."""
    answer = await repository.git.ask("diff", "--no-ext-diff", *options, "--end-of-options", old, new, "--")
    return answer.out


@contextmanager
def _copy_of_index(git_dir: str) -> Iterator[str]:
    """A copy beside the index, of the same age: git takes a file that is older than its index for unchanged."""
    with tempfile.TemporaryDirectory(prefix=INDEX_COPY, dir=git_dir) as folder:
        copy = os.path.join(folder, "index")
        original = os.path.join(git_dir, "index")
        if os.path.exists(original):
            shutil.copy2(original, copy)
        yield copy
