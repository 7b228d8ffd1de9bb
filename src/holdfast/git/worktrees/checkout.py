"""A branch that the user has checked out, moved forward with the files of the checkout.

Nothing of the user's is overwritten. A file that is there already, exactly as the new commit has it, is no obstacle,
although git itself refuses to merge over untracked files: seeds lie in the checkout untracked until their run is
merged. The same makes a merge that was killed midway possible to finish: what it had written is as it should be.
"""

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.git.locks import remove_stale
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.worktrees.in_progress import underway
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import Point

_LINK, _PROGRAM, _PLAIN = "120000", "100755", "100644"
_PLAINLY = ("-c", "merge.autoStash=false", "-c", "submodule.recurse=false")
_LISTED = 5  # files that are named in a message
_CRASH_STAGED = Point("checkout.forward.staged")


class _Change(NamedTuple):
    """A path that the new commit changes, as it will be. An object of zeros means that there is none."""

    path: str
    mode: str
    oid: str
    added: bool = False

    @property
    def exists(self) -> bool:
        return bool(self.oid.strip("0"))


async def checkout_of(repository: Repository, branch: str) -> str | None:
    """The folder in which the branch is checked out; None when it is in none."""
    found = [tree.path for tree in await repository.worktrees() if tree.branch == branch and not tree.bare]
    return next((path for path in found if os.path.isdir(path)), None)


async def forward_checkout(repository: Repository, path: str, branch: str, old: str, new: str) -> None:
    """Move the branch from `old` forward to `new`, and the files of its checkout with it.

    `Denied` when a file that would change is not as `old` has it, nor as `new` does; then nothing is changed.
    """
    git = Git(path, mark=repository.mark, tether=repository.tether, inside=True)
    own = (await git.ask("rev-parse", "--absolute-git-dir")).text
    waits = underway(own)
    if waits is not None:
        raise Denied(f"{branch} is checked out there: {waits.told(path)}, then merge again")
    if not remove_stale(os.path.join(own, "index.lock"), path, own):
        raise Denied(f"git is at work in {path}, where {branch} is checked out; wait for it, and merge again")
    there, differing = await _compare(git, old, new)
    if differing:
        named = ", ".join(differing[:_LISTED]) + (" and more" if differing[_LISTED:] else "")
        raise Denied(
            f"{branch} is checked out in {path}, and {named} there would be overwritten; "
            "commit, move or delete what you have there, then merge again"
        )
    before = await _index_entries(git, there)
    await _set_index(git, there)
    _CRASH_STAGED()
    try:
        await git.do(*_PLAINLY, "merge", "--ff-only", "--quiet", new)
    except GitKilled:
        raise
    except GitFailed as error:
        await _set_index(git, before)
        raise Denied(
            f"{branch} is checked out in {path}, and git does not move it: {' '.join(error.said.split())}"
        ) from None


async def _compare(git: Git, old: str, new: str) -> tuple[list[_Change], list[str]]:
    """The files that would change and are not as `old` has them: those that are as `new` has them, and the others."""
    looking = ("-c", "diff.autoRefreshIndex=false", "diff", "-z", "--name-only", "--no-renames", "--no-ext-diff")
    touched = set((await git.ask(*looking, old, "--")).fields())
    there, differing = [], []
    for change in await _changes(git, old, new):
        path = os.path.join(git.place, change.path)
        if not os.path.lexists(path) or (change.path not in touched and not change.added):
            continue
        if change.exists and await _is_as(git, path, change):
            there.append(change)
        else:
            differing.append(change.path)
    return there, differing


async def _changes(git: Git, old: str, new: str) -> list[_Change]:
    fields = iter((await git.ask("diff-tree", "-r", "-z", "--no-renames", old, new, "--")).fields())
    found = []
    for about, path in zip(fields, fields, strict=True):
        old_mode, mode, _, oid, _ = about.removeprefix(":").split(" ")
        found.append(_Change(path, mode, oid, added=not old_mode.strip("0")))
    return found


async def _is_as(git: Git, path: str, change: _Change) -> bool:
    """By its kind and its content, as git would add it."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        given = os.fsencode(os.readlink(path))
        return change.mode == _LINK and (await git.run("hash-object", "--stdin", given=given)).text == change.oid
    if not stat.S_ISREG(mode) or change.mode != (_PROGRAM if mode & stat.S_IXUSR else _PLAIN):
        return False
    answer = await git.run("hash-object", f"--path={change.path}", "--", path)
    return answer.code == 0 and answer.text == change.oid


async def _index_entries(git: Git, changes: Sequence[_Change]) -> list[_Change]:
    """As the index has these paths now."""
    if not changes:
        return []
    paths = [change.path for change in changes]
    listed = (await git.ask("--literal-pathspecs", "ls-files", "--stage", "-z", "--", *paths)).fields()
    absent = f"0 {'0' * len(changes[0].oid)} 0"
    known = dict.fromkeys(paths, absent) | {path: about for about, _, path in (row.partition("\t") for row in listed)}
    return [_Change(path, mode=about.split(" ")[0], oid=about.split(" ")[1]) for path, about in known.items()]


async def _set_index(git: Git, changes: Sequence[_Change]) -> None:
    """The index alone: no file is touched."""
    if changes:
        given = b"".join(os.fsencode(f"{one.mode} {one.oid}\t{one.path}") + b"\0" for one in changes)
        await git.do("update-index", "-z", "--index-info", given=given)
