"""A worktree of ours: checked before every write, made, and taken away only after what is in it was saved."""

import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.work.names import is_half_written, is_of_task
from holdfast.git.locks import clear_locks
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.worktree_admin import (
    FOLDER,
    LOCKED,
    commondir_of,
    drop_entries,
    entries_of,
    pointed_at,
)
from holdfast.git.worktrees.in_progress import underway
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.directories import is_there, remove_tree, sync_directory
from holdfast.leaf.files.sync import sync_file_systems

_INITIALIZING = "initializing"  # the reason of git's own lock on a worktree that it has not finished
_REFTABLE = "refs/heads/.invalid"  # what HEAD says in a repository whose refs are not files
_GITLINK = "160000 "  # the mode of an entry that is another repository's commit
_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9}
_NOTHING_INSIDE = ("", "..")  # the last two letters of git's four about a submodule: changed, untracked


class NotOurWorktree(Denied):
    """A folder is not the worktree it should be. Nothing is written there."""


class MovedWorktree(NotOurWorktree):
    """It is a worktree of ours, but git knows it at another place."""


class Unlinked(NotOurWorktree):
    """The folder is there, but its `.git` does not lead to the repository any more: it was deleted or replaced."""


class Worktree:
    """A folder that should be a worktree of this repository on this branch."""

    def __init__(self, repository: Repository, path: str, branch: str, moved_from: str | None = None) -> None:
        """`moved_from` is where git knows it, when it is we who moved it."""
        self.repository = repository
        self.path = path
        self.branch = branch
        self.known_at = moved_from or path
        confinement = repository.confine(path)
        self.git = Git(path, mark=repository.mark, tether=repository.tether, inside=True, confinement=confinement)
        self.is_confined = confinement is not None

    def must_be_ours(self) -> str:
        """That this folder is a worktree of this repository, on whatever branch. Returns its own git directory.

        Before everything that reads or writes there: a folder that lost its `.git`, or was made anew as a plain
        folder, belongs to whatever repository encloses it, and a commit there would take the user's files.
        """
        if not is_there(self.path):
            raise NotOurWorktree(f"{self.path} is not there any more; it is made again when the run goes on")
        own = pointed_at(os.path.join(self.path, ".git"), "gitdir: ")
        if own is None:
            raise Unlinked(
                f"{self.path} is no worktree any more: it has no .git of its own; nothing was done there, move it away"
            )
        if commondir_of(own) is None:
            raise Unlinked(
                f"{self.path} is no worktree any more: its .git leads to none; nothing was done there, move it away"
            )
        back = pointed_at(os.path.join(own, FOLDER))
        if commondir_of(own) != os.path.realpath(self.repository.common_dir):
            raise NotOurWorktree(
                f"{self.path} is not a worktree of {self.repository.common_dir}; nothing was done there, move it away"
            )
        if back is None or os.path.realpath(os.path.dirname(back)) != os.path.realpath(self.known_at):
            raise MovedWorktree(
                f"{self.path} was moved or copied: git knows it as {back}; `holdfast doctor --fix` sets that right"
            )
        return own

    def notes(self) -> list[str]:
        """The files without which git can tell nothing of what is in it."""
        own = self.must_be_ours()
        return [os.path.join(own, name) for name in ("HEAD", "index")]

    async def must_be_on_branch(self) -> str:
        """That it is ours, and on its branch: before anything that moves a branch."""
        own = self.must_be_ours()
        on = await self.branch_or_none()
        if on != self.branch:
            back = f"git -C {self.path} switch {self.branch}"
            if is_of_task(self.branch):  # what was done there may be in no other place: every file stays
                ref = f"refs/heads/{self.branch}"
                back = f"git -C {self.path} symbolic-ref HEAD {ref} && git -C {self.path} reset"
            raise NotOurWorktree(
                f"{self.path} is on {on or 'no branch'}, not on {self.branch}; switch it back with {back}"
            )
        return own

    async def branch_or_none(self) -> str | None:
        """The branch that it is on; None when HEAD is detached. Raises when a rebase or the like is why."""
        own = self.must_be_ours()
        on = await self._branch(own)
        waits = underway(own) if on is None else None
        if waits is not None:
            raise NotOurWorktree(f"{waits.told(self.path, self.branch if self.is_confined else None)}, and resume")
        return on

    async def _branch(self, own: str) -> str | None:
        head = pointed_at(os.path.join(own, "HEAD"), "ref: ", relative=True)
        if head == _REFTABLE:
            answer = await self.git.run("symbolic-ref", "--quiet", "HEAD")
            head = answer.text or None
        return head.removeprefix("refs/heads/") if head is not None else None

    def last_head(self) -> str | None:
        """The commit that HEAD was last at, by the worktree's own journal; None when there is no such thing."""
        try:
            own = self.must_be_ours()
            if pointed_at(os.path.join(own, "HEAD"), "ref: ", relative=True) != f"refs/heads/{self.branch}":
                return None
            with open(os.path.join(own, "logs", "HEAD"), encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n").rpartition("\n")[2].split(" ")[1]
        except (OSError, IndexError, NotOurWorktree):
            return None

    def clear_locks(self) -> None:
        """Take away the lock files that a killed git left; `Denied` while one is at work here.

        Also where somebody deleted the folder: what is staged could not be read for them.
        """
        common = self.repository.common_dir
        owned = [self.must_be_ours()] if is_there(self.path) else entries_of(common, self.path)
        for own in owned:
            with suppress(FileNotFoundError):  # another run had it for its own too, and dropped it
                clear_locks(self.path, own, os.path.join(common, "refs", "heads", self.branch))


def known_place(path: str) -> str | None:
    """Where git knows the worktree whose `.git` is in this folder; None when it knows none."""
    own = pointed_at(os.path.join(path, ".git"), "gitdir: ")
    back = pointed_at(os.path.join(own, FOLDER)) if own is not None else None
    return os.path.dirname(back) if back is not None else None


class Change(NamedTuple):
    """One path that differs from HEAD: git's two letters, and the path.

    `foreign` when it is a repository of its own, a submodule or a nested one, with something in it that is in no
    commit.
    """

    status: str
    path: str
    foreign: bool = False

    @property
    def staged(self) -> bool:
        return self.status[0] not in ".?"


class Status(NamedTuple):
    """What `git status` saw: the commit (None before the first), and everything that is not in it and not ignored.

    What a killed write left half written is nobody's work, and so no change. `unseen` are folders that git could not
    look into.
    """

    head: str | None
    changes: tuple[Change, ...]
    half_written: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.changes

    @property
    def unmerged(self) -> list[str]:
        return [change.path for change in self.changes if change.status in _UNMERGED]

    @property
    def foreign(self) -> list[str]:
        return [change.path for change in self.changes if change.foreign]


_UNSEEN = re.compile(r"^warning: could not open directory '(.*)': (?!No such file)", re.MULTILINE)
_UNMERGED = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})


async def status_of(worktree: Worktree) -> Status:
    answer = await worktree.git.ask(
        "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=none"
    )
    head: str | None = None
    changes: list[Change] = []
    half_written: list[str] = []
    fields = iter(answer.fields())
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            head = value if name == "branch.oid" and value != "(initial)" else head
        elif kind == "?" and is_half_written(rest):
            half_written.append(rest)
        elif kind == "?":
            changes.append(Change("??", rest, foreign=rest.endswith("/")))
        else:
            about = rest.split(" ", _FIELDS_BEFORE_PATH[kind])
            changes.append(Change(about[0], about[-1], foreign=about[1][2:] not in _NOTHING_INSIDE))
            if kind == "2":
                next(fields)  # where it was renamed from
    return Status(head, tuple(changes), tuple(half_written), tuple(_UNSEEN.findall(answer.said)))


async def unpushed_submodules(worktree: Worktree) -> list[str]:
    """Repositories within this worktree alone, named by its commits, with commits that no remote is known to have.

    The worktree counts as clean with them: what it is at names their commit, and they alone have it.
    """
    found = []
    for name, folder in sorted((await _repositories_within(worktree)).items()):
        alone = ("rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes")
        answer = await worktree.git.run_inside("git", f"--git-dir={folder}", *alone)
        if answer.code or answer.text:
            found.append(name)
    return found


async def _repositories_within(worktree: Worktree) -> dict[str, str]:
    """Git directories by name: those of submodules, and those of repositories that were added as they stood."""
    modules = os.path.join(worktree.must_be_ours(), "modules")
    found = {
        os.path.relpath(folder, modules): folder
        for folder, _, files in os.walk(modules, onerror=_must_be_absent)
        if "HEAD" in files and "config" in files
    }
    for entry in (await worktree.git.ask("ls-files", "--stage", "-z")).fields():
        path = entry.partition("\t")[2]
        if entry.startswith(_GITLINK) and os.path.isdir(os.path.join(worktree.path, path, ".git")):
            found[path] = os.path.join(worktree.path, path, ".git")
    return found


def _must_be_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


async def add_worktree(worktree: Worktree, base: str, filled: Callable[[], Awaitable[None]] | None = None) -> None:
    """Make it, on its branch; the branch too, at `base`, when it is not there. Harmless when it is made already.

    Until `filled` is done it counts as half made.
    """
    repository = worktree.repository
    if await is_made(worktree):
        return
    clear_half_made(worktree)
    os.makedirs(os.path.dirname(worktree.path), mode=0o700, exist_ok=True)
    if os.path.isdir(worktree.path) and os.listdir(worktree.path):
        await _must_be_its_own(worktree)
    if await repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        await repository.git.do("branch", "--no-track", worktree.branch, base)
    _note_making(worktree)
    try:
        mark = {**repository.mark, "GIT_DIR": repository.common_dir}
        git = Git(repository.common_dir, mark=mark, tether=repository.tether, confinement=worktree.git.confinement)
        await git.do("worktree", "add", worktree.path, worktree.branch)
    except GitKilled:
        raise
    except GitFailed:
        if not await _is_checked_out(worktree):  # else it was only the user's hook that failed, after all was done
            raise
    else:
        _take_gits_lock_away(worktree)
    if filled is not None:
        await filled()
    await sync(worktree)
    _note_made(worktree)


async def sync(worktree: Worktree) -> None:
    """Have the files, and git's notes about them, on the disk: git itself syncs no more than objects and refs.

    After a power cut, files that were never written to the disk would look like an agent's changes.
    """
    await sync_file_systems(worktree.path, worktree.repository.common_dir)


async def _must_be_its_own(worktree: Worktree) -> None:
    """Why nothing can be made where something stands already."""
    try:
        worktree.must_be_ours()
    except MovedWorktree:
        raise
    except NotOurWorktree:
        told = f"{worktree.path} is in the way: it is not the worktree of {worktree.branch}; move it away"
        raise Denied(told) from None
    await worktree.must_be_on_branch()


async def is_made(worktree: Worktree) -> bool:
    """Ours, on its branch, and checked out to the end."""
    return not is_there(_making(worktree)) and await _is_checked_out(worktree)


async def _is_checked_out(worktree: Worktree) -> bool:
    try:
        await worktree.must_be_on_branch()
    except NotOurWorktree:
        return False
    return not _git_is_making(worktree)


def is_half_made(worktree: Worktree) -> bool:
    """By our own note, which is there until all of it is; or by git's, which goes before its hook has run."""
    return is_there(_making(worktree)) or _git_is_making(worktree)


def _git_is_making(worktree: Worktree) -> bool:
    return bool(_locks_of_a_making(worktree))


def _locks_of_a_making(worktree: Worktree) -> list[str]:
    entries = entries_of(worktree.repository.common_dir, worktree.path)
    own = pointed_at(os.path.join(worktree.path, ".git"), "gitdir: ")
    locks = (os.path.join(entry, LOCKED) for entry in ([own] if own in entries else entries))
    return [lock for lock in locks if pointed_at(lock, relative=True) == _INITIALIZING]


def _take_gits_lock_away(worktree: Worktree) -> None:
    """Where the disk did not let git do so it says nothing, and what it made would count as half made for ever."""
    for lock in _locks_of_a_making(worktree):
        with suppress(FileNotFoundError):
            os.unlink(lock)


def _making(worktree: Worktree) -> str:
    """The file that is there while it is being made; of a name that no task's folder has."""
    folder, name = os.path.split(worktree.path)
    return os.path.join(folder, f".{name}.making")


def _note_made(worktree: Worktree) -> None:
    """Durable before anybody works there: a note that came back would have the work taken for half of a checkout."""
    os.unlink(_making(worktree))
    sync_directory(os.path.dirname(worktree.path))


def _note_making(worktree: Worktree) -> None:
    fd = os.open(_making(worktree), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(os.path.dirname(worktree.path))


def clear_half_made(worktree: Worktree) -> None:
    """Take away what a cut-off making left, and the entry of a worktree whose folder is gone.

    What is half made holds what git checked out, and nothing else yet.
    """
    if is_half_made(worktree):
        remove_tree(worktree.path)
    drop_entries(worktree.repository.common_dir, worktree.path)
    if not is_there(worktree.path):
        with suppress(FileNotFoundError):
            os.unlink(_making(worktree))
