"""Links a worktree to its repository again when its `.git` was deleted or replaced. Its files stay as they are.

Git knows a worktree by two notes that name each other: the file `.git` in the folder, and the entry in the repository.
An agent may delete the first, or put a repository of its own (`git init`) in its place.
"""

import os
import secrets
from typing import NamedTuple

from holdfast.core.work.names import half_written
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import OBJECT, Repository
from holdfast.git.worktree_admin import FOLDER, commondir_of, drop_entries, entries_of, pointed_at
from holdfast.git.worktrees.worktree import NotOurWorktree, Unlinked, Worktree
from holdfast.leaf.failpoints import Point
from holdfast.leaf.files.directories import is_there, remove_tree, sync_directory

UNSAVED = ".unsaved"  # ends the name of a repository that was set aside, and whose commits no ref has

_DOT_GIT = ".git"
_ON_BRANCH = "ref: refs/"
_SKIPPED = "S "  # of `git ls-files -t`: left out of a sparse checkout
_CRASH_SET_ASIDE, _CRASH_ENTERED = Point("worktree.link.set-aside"), Point("worktree.link.entered")


class Replaced(NamedTuple):
    """What stood in the place of `.git`: where it is now, and the refs that hold its commits."""

    path: str | None = None
    refs: tuple[str, ...] = ()


def is_unlinked(worktree: Worktree) -> bool:
    """True when the folder is there, and does not lead to its repository any more."""
    try:
        worktree.must_be_ours()
    except Unlinked:
        return True
    except NotOurWorktree:  # it is not there, or is another's: not for us to link
        return False
    return False


async def link(worktree: Worktree, base: str | None, ref: str) -> Replaced:
    """Have the folder lead to the repository again; harmless when it does.

    Commits of a repository that stood in the place of `.git` are kept under `ref`, and the repository itself beside
    the folder. `base` is the commit to be at where neither an entry nor the branch is left.
    """
    if not is_unlinked(worktree):
        return Replaced()
    replaced = await _set_aside(worktree, ref)
    _CRASH_SET_ASIDE()
    entry = _whole_entry(worktree) or await _new_entry(worktree, base)
    _CRASH_ENTERED()
    _write(worktree.path, _DOT_GIT, f"gitdir: {entry}\n")
    return replaced


async def is_made_anew(worktree: Worktree) -> bool:
    """True when most of the files that git knows there are missing: somebody deleted the folder, and made another.

    An agent that goes on writing after its worktree was deleted makes such a folder. Taken for the worktree, it
    would be a change that deletes all the rest.
    """
    entry = _whole_entry(worktree)
    if entry is not None:
        git = Git(entry, mark={**worktree.repository.mark, "GIT_DIR": entry})
        listed = (await git.ask("ls-files", "-t", "-z")).fields()
        names = [line[2:] for line in listed if not line.startswith(_SKIPPED)]
    elif await worktree.repository.commit_of(f"refs/heads/{worktree.branch}") is not None:
        tree = ("ls-tree", "-r", "-z", "--name-only", f"refs/heads/{worktree.branch}")
        names = (await worktree.repository.git.ask(*tree)).fields()
    else:
        return False
    missing = sum(not os.path.lexists(os.path.join(worktree.path, name)) for name in names)
    return missing * 2 > len(names)


async def _set_aside(worktree: Worktree, ref: str) -> Replaced:
    """Whatever is called `.git` there now. The name says so when it holds commits that could not be kept by refs."""
    found = os.path.join(worktree.path, _DOT_GIT)
    if not is_there(found):
        return Replaced()
    is_kept = await _keep_commits(worktree.repository, found, ref) if os.path.isdir(found) else True
    folder, name = os.path.split(worktree.known_at)
    aside = os.path.join(folder, f".{name.strip('.')}.git-{secrets.token_hex(4)}{'' if is_kept else UNSAVED}")
    os.rename(found, aside)
    sync_directory(worktree.path)
    sync_directory(folder)
    return Replaced(aside, tuple(sorted(await worktree.repository.refs(f"{ref}/"))))


async def _keep_commits(repository: Repository, found: str, ref: str) -> bool:
    """Fetch what its branches, tags, stash and detached HEAD hold: it may be nowhere else. False when git cannot.

    To fetch from a repository runs nothing that its config names.
    """
    fetching = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", found)
    head = pointed_at(os.path.join(found, "HEAD"), relative=True) or ""
    detached = [f"+HEAD:{ref}/HEAD"] if OBJECT.fullmatch(head) else []
    try:
        await repository.git.do(*fetching, f"+refs/*:{ref}/*", "^refs/remotes/*", *detached)
    except GitKilled:
        raise
    except GitFailed:
        return not is_there(os.path.join(found, "objects"))  # else it was no repository, and holds no commits
    return True


def _whole_entry(worktree: Worktree) -> str | None:
    """The one that git has still, if its notes can be used."""
    common = worktree.repository.common_dir
    for entry in entries_of(common, worktree.known_at):
        head = pointed_at(os.path.join(entry, "HEAD"), relative=True) or ""
        is_head = head.startswith(_ON_BRANCH) or OBJECT.fullmatch(head) is not None
        if is_head and commondir_of(entry) == os.path.realpath(common):
            return entry
    return None


async def _new_entry(worktree: Worktree, base: str | None) -> str:
    """Made by git at another place, whose name it is then given: git makes none for a folder with files in it."""
    repository, known_at = worktree.repository, worktree.known_at
    folder, name = os.path.split(known_at)
    place = os.path.join(folder, f".{name.strip('.')}.link")
    remove_tree(place)
    drop_entries(repository.common_dir, place)
    at = worktree.branch if await repository.commit_of(f"refs/heads/{worktree.branch}") is not None else base
    detached = () if at == worktree.branch else ("--detach",)
    await repository.git.do("worktree", "add", "--force", "--no-checkout", *detached, place, at or "HEAD")
    entry = pointed_at(os.path.join(place, _DOT_GIT), "gitdir: ")
    if entry is None:
        raise GitFailed("worktree add", 1, f"it made nothing at {place}")
    await Git(entry, mark={**repository.mark, "GIT_DIR": entry}).do("read-tree", "HEAD")
    _write(entry, FOLDER, f"{os.path.join(known_at, _DOT_GIT)}\n")
    remove_tree(place)
    return entry


def _write(folder: str, name: str, text: str) -> None:
    """Whole or not at all, and on the disk."""
    temporary = os.path.join(folder, half_written(secrets.token_hex(8)))
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, os.fsencode(text))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, os.path.join(folder, name))
    sync_directory(folder)
