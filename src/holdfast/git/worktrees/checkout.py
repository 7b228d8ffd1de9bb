"""Moves a branch that the user has checked out forward, together with the files of the checkout.

Never overwrites the user's changes. A file that matches the new commit already is no obstacle, although git refuses to
merge over untracked files: seeds are untracked in the checkout until their run is merged. For the same reason a merge
that was killed midway can be finished: the files it wrote match.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.locks import remove_stale
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.worktrees.in_progress import operation_in_progress
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import Failpoint

_SYMLINK_MODE, _EXECUTABLE_MODE, _FILE_MODE = "120000", "100755", "100644"
_MERGE_OPTIONS = ("-c", "merge.autoStash=false", "-c", "submodule.recurse=false")
_LOCKS = ("index.lock", "HEAD.lock", "ORIG_HEAD.lock")  # of a merge in the checkout
_HOOK = "post-merge"
_MAX_LISTED_PATHS = 5  # in a message
_FAILPOINT_STAGED = Failpoint("checkout.forward.staged")


class _Change(NamedTuple):
    """A path that the new commit changes: its new mode and object, and its old ones. Zeros mean that it is absent."""

    path: str
    mode: str
    oid: str
    old_mode: str = ""
    old_oid: str = ""

    @property
    def is_added(self) -> bool:
        return not self.old_mode.strip("0")


class _Comparison(NamedTuple):
    """Files to change that do not match the old commit: they match the new one, are missing, or differ from both."""

    matching: list[_Change]
    missing: list[str]
    differing: list[str]


async def checkout_of(repository: Repository, branch: str) -> str | None:
    """Return the folder in which the branch is checked out; None when it is checked out nowhere."""
    found = [tree.path for tree in await repository.worktrees() if tree.branch == branch and not tree.bare]
    return next((path for path in found if os.path.isdir(path)), None)


async def hook_in_checkout(repository: Repository, path: str) -> str | None:
    """Return the hook that a merge does not run, because it is a file of the checkout; None when there is none."""
    git = _git(repository, path)
    hook = os.path.join(await git.hooks_folder(), _HOOK)
    return hook if os.access(hook, os.X_OK) and await _has_own_hooks(git) else None


def _git(repository: Repository, path: str, *, runs_hooks: bool = True) -> Git:
    return Git(
        path,
        env_markers=repository.env_markers,
        fd_marker=repository.fd_marker,
        stay_in_folder=True,
        runs_hooks=runs_hooks,
    )


async def _open(repository: Repository, path: str) -> Git:
    """Return the git of a checkout. It runs no hooks that are files of the checkout: an agent may have written them."""
    git = _git(repository, path)
    return _git(repository, path, runs_hooks=False) if await _has_own_hooks(git) else git


async def _has_own_hooks(git: Git) -> bool:
    """Whether the hooks, or one of them, are files of the checkout, outside of its git folder."""
    folder = await git.hooks_folder()
    git_dir = (await git.query("rev-parse", "--path-format=absolute", "--git-common-dir")).text
    names = [os.path.join(folder, name) for name in os.listdir(folder)] if os.path.isdir(folder) else []
    return any(_is_below(path, git.folder) and not _is_below(path, git_dir) for path in (folder, *names))


def _is_below(path: str, folder: str) -> bool:
    top = os.path.realpath(folder)
    return os.path.commonpath((top, os.path.realpath(path))) == top


async def forward_checkout(repository: Repository, path: str, branch: str, old: str, new: str) -> None:
    """Fast-forward the branch from `old` to `new`, and update the files of its checkout.

    Raises `Denied`, without changing anything, when a file that would change matches neither `old` nor `new`.
    """
    git = await _open(repository, path)
    git_dir = (await git.query("rev-parse", "--absolute-git-dir")).text
    operation = operation_in_progress(git_dir)
    if operation is not None:
        raise Denied(f"cannot merge into {branch}: {operation.describe(path)}, then merge again")
    if not all(remove_stale(os.path.join(git_dir, name), path, git_dir) for name in _LOCKS):
        raise Denied(f"git is running in {path}, where {branch} is checked out; wait until it ends, then merge again")
    matching, _, differing = await _compare(git, old, new)
    if differing:
        paths = ", ".join(differing[:_MAX_LISTED_PATHS]) + (" and more" if differing[_MAX_LISTED_PATHS:] else "")
        raise Denied(
            f"{branch} is checked out in {path}, and the merge would overwrite {paths} there; "
            "nothing changed. Commit, stash or move your changes, then merge again"
        )
    before = await _index_entries(git, matching)
    await _set_index(git, matching)
    _FAILPOINT_STAGED()
    try:
        await git.execute(*_MERGE_OPTIONS, "merge", "--ff-only", "--quiet", new)
    except GitKilled:
        raise
    except GitFailed as error:
        await _set_index(git, before)
        raise Denied(
            f"{branch} is checked out in {path}, and git refuses to update it: {' '.join(error.output.split())}"
        ) from None


async def finish_checkout(repository: Repository, path: str, branch: str, old: str, new: str) -> None:
    """Finish a fast-forward that was killed while git wrote files.

    Does nothing if it had written none yet, or if a file matches neither commit: the user has changed it since, or git
    was killed while it wrote that file. Then the next merge names the file.
    """
    found = await _compare(await _open(repository, path), old, new)
    if (found.matching or found.missing) and not found.differing:
        with suppress(Denied):  # the user is in the middle of something there
            await forward_checkout(repository, path, branch, old, new)


async def _compare(git: Git, old: str, new: str) -> _Comparison:
    """Compare the files that the new commit changes with both commits."""
    diff = ("-c", "diff.autoRefreshIndex=false", "diff", "-z", "--name-only", "--no-renames", "--no-ext-diff")
    touched = set((await git.query(*diff, old, "--")).fields())
    found = _Comparison([], [], [])
    for change in await _changes(git, old, new):
        path = os.path.join(git.folder, change.path)
        if not os.path.lexists(path):
            if change.path in touched and not change.is_added:
                found.missing.append(change.path)
        elif not change.is_added and (
            change.path not in touched or await _matches(git, change.path, change.old_mode, change.old_oid)
        ):
            continue  # git also lists files that were only copied or touched
        elif await _matches(git, change.path, change.mode, change.oid):
            found.matching.append(change)
        else:
            found.differing.append(change.path)
    return found


async def _changes(git: Git, old: str, new: str) -> list[_Change]:
    fields = iter((await git.query("diff-tree", "-r", "-z", "--no-renames", old, new, "--")).fields())
    found = []
    for info, path in zip(fields, fields, strict=True):
        old_mode, mode, old_oid, oid, _ = info.removeprefix(":").split(" ")
        found.append(_Change(path, mode, oid, old_mode, old_oid))
    return found


async def _matches(git: Git, name: str, mode: str, oid: str) -> bool:
    """Compare mode and content of a file with a commit's, as git would add the file."""
    path = os.path.join(git.folder, name)
    found = os.lstat(path).st_mode
    if stat.S_ISLNK(found):
        target = os.fsencode(os.readlink(path))
        return mode == _SYMLINK_MODE and (await git.run("hash-object", "--stdin", stdin=target)).text == oid
    if not stat.S_ISREG(found) or mode != (_EXECUTABLE_MODE if found & stat.S_IXUSR else _FILE_MODE):
        return False
    answer = await git.run("hash-object", f"--path={name}", "--", path)
    return answer.code == 0 and answer.text == oid


async def _index_entries(git: Git, changes: Sequence[_Change]) -> list[_Change]:
    """Return the current index entries of these paths."""
    if not changes:
        return []
    paths = [change.path for change in changes]
    listed = (await git.query("--literal-pathspecs", "ls-files", "--stage", "-z", "--", *paths)).fields()
    absent = f"0 {'0' * len(changes[0].oid)} 0"
    known = dict.fromkeys(paths, absent) | {path: info for info, _, path in (row.partition("\t") for row in listed)}
    return [_Change(path, mode=info.split(" ")[0], oid=info.split(" ")[1]) for path, info in known.items()]


async def _set_index(git: Git, changes: Sequence[_Change]) -> None:
    """Change only the index, no files."""
    if changes:
        entries = b"".join(os.fsencode(f"{change.mode} {change.oid}\t{change.path}") + b"\0" for change in changes)
        await git.execute("update-index", "-z", "--index-info", stdin=entries)
