"""Links a worktree to its repository again when its `.git` was deleted or replaced, without changing its files.

Git knows a worktree by two files that name each other: `.git` in the folder, and `gitdir` in the repository's entry.
An agent may delete the first, or replace it with a new repository (`git init`).
"""

import os
import secrets
from typing import NamedTuple

from holdfast.core.work.names import temporary_name
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import OBJECT_ID, Repository
from holdfast.git.worktree_admin import GITDIR_FILE, commondir_of, drop_entries, entries_of, read_pointer
from holdfast.git.worktrees.worktree import NotOurWorktree, UnlinkedWorktree, Worktree
from holdfast.leaf.failpoints import Failpoint
from holdfast.leaf.files.directories import path_exists, remove_tree, sync_directory

UNSAVED_SUFFIX = ".unsaved"  # of a repository that was moved aside, and whose commits no ref keeps

_DOT_GIT = ".git"
_SYMREF_PREFIX = "ref: refs/"
_SKIP_WORKTREE_TAG = "S "  # in `git ls-files -t`: outside of a sparse checkout
_FAILPOINT_SET_ASIDE, _FAILPOINT_ENTERED = Failpoint("worktree.link.set-aside"), Failpoint("worktree.link.entered")


class ReplacedDotGit(NamedTuple):
    """What had replaced `.git`: its new path, and the refs that keep its commits."""

    path: str | None = None
    refs: tuple[str, ...] = ()


def is_unlinked(worktree: Worktree) -> bool:
    """True when the folder exists, but its `.git` does not point to the repository any more."""
    try:
        worktree.must_be_ours()
    except UnlinkedWorktree:
        return True
    except NotOurWorktree:  # missing, or another repository's worktree
        return False
    return False


async def link(worktree: Worktree, base: str | None, ref: str) -> ReplacedDotGit:
    """Link the folder to the repository again; does nothing when it is linked.

    Keeps the commits of a repository that replaced `.git` under `ref`, and that repository beside the folder. `base` is
    the commit to check out when neither an entry nor the branch is left.
    """
    if not is_unlinked(worktree):
        return ReplacedDotGit()
    replaced = await _set_aside(worktree, ref)
    _FAILPOINT_SET_ASIDE()
    entry = _intact_entry(worktree) or await _new_entry(worktree, base)
    _FAILPOINT_ENTERED()
    _write_file(worktree.path, _DOT_GIT, f"gitdir: {entry}\n")
    return replaced


async def is_recreated(worktree: Worktree) -> bool:
    """True when most of the files that git expects are missing: the folder was deleted and created again.

    An agent that keeps writing after its worktree was deleted creates such a folder. As a worktree, it would count as
    a change that deletes all other files.
    """
    entry = _intact_entry(worktree)
    if entry is not None:
        git = Git(entry, env_markers={**worktree.repository.env_markers, "GIT_DIR": entry})
        listed = (await git.query("ls-files", "-t", "-z")).fields()
        names = [line[2:] for line in listed if not line.startswith(_SKIP_WORKTREE_TAG)]
    elif await worktree.repository.commit_of(f"refs/heads/{worktree.branch}") is not None:
        tree = ("ls-tree", "-r", "-z", "--name-only", f"refs/heads/{worktree.branch}")
        names = (await worktree.repository.git.query(*tree)).fields()
    else:
        return False
    missing = sum(not os.path.lexists(os.path.join(worktree.path, name)) for name in names)
    return missing * 2 > len(names)


async def _set_aside(worktree: Worktree, ref: str) -> ReplacedDotGit:
    """Move what is now named `.git` aside. Its new name ends in `.unsaved` when its commits could not be kept."""
    dot_git = os.path.join(worktree.path, _DOT_GIT)
    if not path_exists(dot_git):
        return ReplacedDotGit()
    is_kept = await _keep_commits(worktree.repository, dot_git, ref) if os.path.isdir(dot_git) else True
    folder, name = os.path.split(worktree.registered_path)
    aside = os.path.join(folder, f".{name.strip('.')}.git-{secrets.token_hex(4)}{'' if is_kept else UNSAVED_SUFFIX}")
    os.rename(dot_git, aside)
    sync_directory(worktree.path)
    sync_directory(folder)
    return ReplacedDotGit(aside, tuple(sorted(await worktree.repository.refs(f"{ref}/"))))


async def _keep_commits(repository: Repository, git_dir: str, ref: str) -> bool:
    """Fetch the commits of its branches, tags, stash and detached HEAD: they may exist nowhere else. False on failure.

    Fetching from a repository runs no program that its config names.
    """
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", git_dir)
    head = read_pointer(os.path.join(git_dir, "HEAD"), allow_relative=True) or ""
    detached = [f"+HEAD:{ref}/HEAD"] if OBJECT_ID.fullmatch(head) else []
    try:
        await repository.git.execute(*fetch, f"+refs/*:{ref}/*", "^refs/remotes/*", *detached)
    except GitKilled:
        raise
    except GitFailed:
        return not path_exists(os.path.join(git_dir, "objects"))  # without objects it was not a repository
    return True


def _intact_entry(worktree: Worktree) -> str | None:
    """Return the entry that git still has, if it is usable."""
    common = worktree.repository.common_dir
    for entry in entries_of(common, worktree.registered_path):
        head = read_pointer(os.path.join(entry, "HEAD"), allow_relative=True) or ""
        is_head = head.startswith(_SYMREF_PREFIX) or OBJECT_ID.fullmatch(head) is not None
        if is_head and commondir_of(entry) == os.path.realpath(common):
            return entry
    return None


async def _new_entry(worktree: Worktree, base: str | None) -> str:
    """Have git create an entry for another path, then point it at the folder: git refuses a folder with files in it."""
    repository, registered_path = worktree.repository, worktree.registered_path
    folder, name = os.path.split(registered_path)
    temporary = os.path.join(folder, f".{name.strip('.')}.link")
    remove_tree(temporary)
    drop_entries(repository.common_dir, temporary)
    start = worktree.branch if await repository.commit_of(f"refs/heads/{worktree.branch}") is not None else base
    detached = () if start == worktree.branch else ("--detach",)
    await repository.git.execute("worktree", "add", "--force", "--no-checkout", *detached, temporary, start or "HEAD")
    entry = read_pointer(os.path.join(temporary, _DOT_GIT), "gitdir: ")
    if entry is None:
        raise GitFailed("worktree add", 1, f"it created nothing at {temporary}")
    await Git(entry, env_markers={**repository.env_markers, "GIT_DIR": entry}).execute("read-tree", "HEAD")
    _write_file(entry, GITDIR_FILE, f"{os.path.join(registered_path, _DOT_GIT)}\n")
    remove_tree(temporary)
    return entry


def _write_file(folder: str, name: str, text: str) -> None:
    """Write the file atomically and sync it."""
    temporary = os.path.join(folder, temporary_name(secrets.token_hex(8)))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, os.fsencode(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, os.path.join(folder, name))
    sync_directory(folder)
