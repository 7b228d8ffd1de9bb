"""A worktree of a run: checked before every write, and complete or recognizably half made."""

import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.work.names import is_task_branch, is_temporary_name
from holdfast.git.locks import clear_locks
from holdfast.git.process import Git, GitFailed, GitKilled
from holdfast.git.ref_files import AskGit, may_have_gitlinks, read_head
from holdfast.git.repository import Repository
from holdfast.git.worktree_admin import (
    GITDIR_FILE,
    LOCKED_FILE,
    drop_entries,
    entries_of,
    own_entry,
    read_pointer,
)
from holdfast.git.worktrees.in_progress import operation_in_progress
from holdfast.leaf.errors import Denied
from holdfast.leaf.files.directories import path_exists, remove_tree, sync_directory
from holdfast.leaf.files.sync import sync_file_systems

_INITIALIZING_REASON = "initializing"  # the reason in git's own lock on a worktree that it is still creating
_REFTABLE_HEAD = "refs/heads/.invalid"  # the content of HEAD in a repository with reftables
_NEW_BRANCH = ("--force", "--no-track", "-b")  # forced: no search through all worktrees for one that has the branch
_GITLINK_MODE = "160000 "  # the mode of an entry that is another repository's commit
_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9}
_SUBMODULE_UNCHANGED = ("", "..")  # the last two of git's four letters for a submodule: modified, untracked


class NotOurWorktree(Denied):
    """A folder is not the expected worktree. Nothing is written there."""


class MovedWorktree(NotOurWorktree):
    """The folder is a worktree of ours, but git has it registered at another path."""


class UnlinkedWorktree(NotOurWorktree):
    """The folder exists, but its `.git` was deleted or replaced and does not point to the repository any more."""


class Worktree:
    """A folder that should be a worktree of this repository, on this branch."""

    def __init__(self, repository: Repository, path: str, branch: str, moved_from: str | None = None) -> None:
        """`moved_from` is the path where git has it registered, when we moved it."""
        self.repository = repository
        self.path = path
        self.branch = branch
        self.registered_path = moved_from or path
        confinement = repository.confine(path)
        self.git = Git(
            path,
            env_markers=repository.env_markers,
            fd_marker=repository.fd_marker,
            stay_in_folder=True,
            confinement=confinement,
        )
        self.is_confined = confinement is not None

    def must_be_ours(self) -> str:
        """Raise unless this folder is a worktree of this repository, on any branch. Returns its git directory.

        Called before every read and write there: a folder that lost its `.git`, or was created again as a plain
        folder, belongs to the repository that encloses it, and a commit there would take the user's files.
        """
        if not path_exists(self.path):
            raise NotOurWorktree(f"{self.path} does not exist any more; resuming the run creates it again")
        git_dir = read_pointer(os.path.join(self.path, ".git"), "gitdir: ")
        if git_dir is None:
            raise UnlinkedWorktree(
                f"{self.path} is not a worktree any more: it has no .git of its own; nothing was changed, move it away"
            )
        common_dir = read_pointer(os.path.join(git_dir, "commondir"))
        if common_dir is None:
            raise UnlinkedWorktree(
                f"{self.path} is not a worktree any more: its .git points nowhere; nothing was changed, move it away"
            )
        dot_git = read_pointer(os.path.join(git_dir, GITDIR_FILE))
        if not _is_same_path(common_dir, self.repository.common_dir):
            raise NotOurWorktree(
                f"{self.path} is not a worktree of {self.repository.common_dir}; nothing was changed, move it away"
            )
        if dot_git is None or not _is_same_path(os.path.dirname(dot_git), self.registered_path):
            raise MovedWorktree(
                f"{self.path} was moved or copied: git has it registered at {dot_git}; "
                "repair that with: holdfast doctor --fix"
            )
        return git_dir

    def state_files(self) -> list[str]:
        """Return the files that git needs to read the state of the worktree."""
        git_dir = self.must_be_ours()
        return [os.path.join(git_dir, name) for name in ("HEAD", "index")]

    async def must_be_on_branch(self) -> str:
        """Raise unless the worktree is ours and on its branch. Called before anything that moves a branch."""
        git_dir = self.must_be_ours()
        branch = await self.current_branch()
        if branch != self.branch:
            command = f"git -C {self.path} switch {self.branch}"
            if is_task_branch(self.branch):  # the files may be the only copy of the work: do not change any
                ref = f"refs/heads/{self.branch}"
                command = f"git -C {self.path} symbolic-ref HEAD {ref} && git -C {self.path} reset"
            raise NotOurWorktree(
                f"{self.path} is on {branch or 'no branch'}, not on {self.branch}; switch it back with: {command}"
            )
        return git_dir

    async def current_branch(self) -> str | None:
        """Return the checked out branch; None when HEAD is detached. Raises when a rebase or the like detached it."""
        git_dir = self.must_be_ours()
        branch = await self._read_branch(git_dir)
        operation = operation_in_progress(git_dir) if branch is None else None
        if operation is not None:
            confined_on = self.branch if self.is_confined else None
            raise NotOurWorktree(f"{operation.describe(self.path, confined_on)}, and resume")
        return branch

    async def _read_branch(self, git_dir: str) -> str | None:
        head = read_pointer(os.path.join(git_dir, "HEAD"), "ref: ", allow_relative=True)
        if head == _REFTABLE_HEAD:
            answer = await self.git.run("symbolic-ref", "--quiet", "HEAD")
            head = answer.text or None
        return head.removeprefix("refs/heads/") if head is not None else None

    async def head_commit(self) -> str | None:
        """Return the commit of HEAD; None before the first commit of its branch."""
        git_dir = self.must_be_ours()
        with suppress(AskGit):
            self.git.must_be_plain()
            return await self.repository.commit_of(read_head(git_dir))
        return (await self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")).text or None

    def last_head(self) -> str | None:
        """Return the last commit in the worktree's reflog of HEAD; None when there is none."""
        try:
            git_dir = self.must_be_ours()
            if read_pointer(os.path.join(git_dir, "HEAD"), "ref: ", allow_relative=True) != f"refs/heads/{self.branch}":
                return None
            with open(os.path.join(git_dir, "logs", "HEAD"), encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n").rpartition("\n")[2].split(" ")[1]
        except (OSError, IndexError, NotOurWorktree):
            return None

    def clear_locks(self) -> None:
        """Remove the lock files of a killed git; raises `Denied` while a git is running here.

        Also works when the folder was deleted: with the locks, its index could not be read.
        """
        common = self.repository.common_dir
        git_dirs = [self.must_be_ours()] if path_exists(self.path) else entries_of(common, self.path)
        for git_dir in git_dirs:
            with suppress(FileNotFoundError):  # another run dropped the same entry
                clear_locks(self.path, git_dir, os.path.join(common, "refs", "heads", self.branch))


def _is_same_path(path: str, other: str) -> bool:
    """Whether two paths lead to the same place. Most are written alike, and need not be looked up."""
    return path == other or os.path.realpath(path) == os.path.realpath(other)


def registered_path(path: str) -> str | None:
    """Return the path where git has the worktree in this folder registered; None when it has not."""
    git_dir = read_pointer(os.path.join(path, ".git"), "gitdir: ")
    dot_git = read_pointer(os.path.join(git_dir, GITDIR_FILE)) if git_dir is not None else None
    return os.path.dirname(dot_git) if dot_git is not None else None


class Change(NamedTuple):
    """A path that differs from HEAD: git's two status letters, and the path.

    `is_foreign` for a submodule or nested repository with uncommitted content.
    """

    status: str
    path: str
    is_foreign: bool = False

    @property
    def is_staged(self) -> bool:
        return self.status[0] not in ".?"


class Status(NamedTuple):
    """The result of `git status`: HEAD (None before the first commit), and all changes that are not ignored.

    Files that a killed write left half written are not changes. `unreadable_folders` are those that git could not open.
    """

    head: str | None
    changes: tuple[Change, ...]
    half_written: tuple[str, ...] = ()
    unreadable_folders: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.changes

    @property
    def unmerged_paths(self) -> list[str]:
        return [change.path for change in self.changes if change.status in _UNMERGED_CODES]

    @property
    def foreign_paths(self) -> list[str]:
        return [change.path for change in self.changes if change.is_foreign]


_UNREADABLE_FOLDER = re.compile(r"^warning: could not open directory '(.*)': (?!No such file)", re.MULTILINE)
_UNMERGED_CODES = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})


async def status_of(worktree: Worktree) -> Status:
    answer = await worktree.git.query(
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
        elif kind == "?" and is_temporary_name(rest):
            half_written.append(rest)
        elif kind == "?":
            changes.append(Change("??", rest, is_foreign=rest.endswith("/")))
        else:
            values = rest.split(" ", _FIELDS_BEFORE_PATH[kind])
            changes.append(Change(values[0], values[-1], is_foreign=values[1][2:] not in _SUBMODULE_UNCHANGED))
            if kind == "2":
                next(fields)  # the old name of a renamed file
    return Status(head, tuple(changes), tuple(half_written), tuple(_UNREADABLE_FOLDER.findall(answer.stderr)))


async def unpushed_submodules(worktree: Worktree) -> list[str]:
    """Return repositories inside this worktree that have commits which no known remote has.

    Git reports the worktree as clean: its commit names theirs, but only they contain it.
    """
    found = []
    for name, folder in sorted((await _repositories_within(worktree)).items()):
        unpushed = ("rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes")
        answer = await worktree.git.run_inside("git", f"--git-dir={folder}", *unpushed)
        if answer.code or answer.text:
            found.append(name)
    return found


async def _repositories_within(worktree: Worktree) -> dict[str, str]:
    """Return git directories by name: of submodules, and of repositories that were added without registration."""
    modules = os.path.join(worktree.must_be_ours(), "modules")
    found = {
        os.path.relpath(folder, modules): folder
        for folder, _, files in os.walk(modules, onerror=_must_be_absent)
        if "HEAD" in files and "config" in files
    }
    if not may_have_gitlinks(worktree.must_be_ours()):
        return found
    for entry in (await worktree.git.query("ls-files", "--stage", "-z")).fields():
        path = entry.partition("\t")[2]
        if entry.startswith(_GITLINK_MODE) and os.path.isdir(os.path.join(worktree.path, path, ".git")):
            found[path] = os.path.join(worktree.path, path, ".git")
    return found


def _must_be_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


async def add_worktree(worktree: Worktree, base: str, fill: Callable[[], Awaitable[None]] | None = None) -> None:
    """Create the worktree, and its branch at `base` if it does not exist. Does nothing when it is complete.

    Until `fill` returns, the worktree counts as half made.
    """
    repository = worktree.repository
    if await is_complete(worktree):
        return
    delete_half_made(worktree)
    os.makedirs(os.path.dirname(worktree.path), mode=0o700, exist_ok=True)
    if os.path.isdir(worktree.path) and os.listdir(worktree.path):
        await _check_path_is_free(worktree)
    exists = await repository.commit_of(f"refs/heads/{worktree.branch}") is not None
    if exists:
        drop_entries(repository.common_dir, worktree.path, of_any_name=True)
    branch = [worktree.path, worktree.branch] if exists else [*_NEW_BRANCH, worktree.branch, worktree.path, base]
    _write_marker(worktree)
    try:
        git = Git(
            repository.common_dir,
            env_markers={**repository.env_markers, "GIT_DIR": repository.common_dir},
            fd_marker=repository.fd_marker,
            confinement=worktree.git.confinement,
        )
        await git.execute("worktree", "add", *branch)
    except GitKilled:
        raise
    except GitFailed as error:
        is_taken = not exists and f"a branch named '{worktree.branch}' already exists" in error.output
        if is_taken and await repository.commit_of(f"refs/heads/{worktree.branch}") is not None:
            # an attempt created the branch and then met another git that creates a worktree; the next attempt found it
            await add_worktree(worktree, base, fill)
            return
        if not await _is_checked_out(worktree):  # else only the user's post-checkout hook failed
            raise
    else:
        _delete_creation_locks(worktree)
    if fill is not None:
        await fill()
    await sync_worktree(worktree)
    _delete_marker(worktree)


async def sync_worktree(worktree: Worktree) -> None:
    """Sync the files and the index: git itself syncs only objects and refs.

    After a power cut, files that never reached the disk would look like an agent's changes.
    """
    await sync_file_systems(worktree.path, worktree.repository.common_dir)


async def _check_path_is_free(worktree: Worktree) -> None:
    """Raise with the reason why a worktree cannot be created at an occupied path."""
    try:
        worktree.must_be_ours()
    except MovedWorktree:
        raise
    except NotOurWorktree:
        message = f"{worktree.path} is in the way: it is not the worktree of {worktree.branch}; move it away"
        raise Denied(message) from None
    await worktree.must_be_on_branch()


async def is_complete(worktree: Worktree) -> bool:
    """True when the worktree is ours, on its branch, and fully checked out."""
    return not path_exists(_marker_path(worktree)) and await _is_checked_out(worktree)


async def _is_checked_out(worktree: Worktree) -> bool:
    try:
        await worktree.must_be_on_branch()
    except NotOurWorktree:
        return False
    return not _is_git_creating(worktree)


def is_half_made(worktree: Worktree) -> bool:
    """True while our marker exists, which we delete last, or git's own lock, which it deletes before its hook runs."""
    return path_exists(_marker_path(worktree)) or _is_git_creating(worktree)


def _is_git_creating(worktree: Worktree) -> bool:
    return bool(_creation_locks(worktree))


def _creation_locks(worktree: Worktree) -> list[str]:
    own = own_entry(worktree.repository.common_dir, worktree.path)
    entries = [own] if own is not None else entries_of(worktree.repository.common_dir, worktree.path)
    locks = (os.path.join(entry, LOCKED_FILE) for entry in entries)
    return [lock for lock in locks if read_pointer(lock, allow_relative=True) == _INITIALIZING_REASON]


def _delete_creation_locks(worktree: Worktree) -> None:
    """Git does not report when it fails to delete its lock, and the worktree would count as half made forever."""
    for lock in _creation_locks(worktree):
        with suppress(FileNotFoundError):
            os.unlink(lock)


def _marker_path(worktree: Worktree) -> str:
    """Return the path of the marker that exists during the creation; no task's folder has such a name."""
    folder, name = os.path.split(worktree.path)
    return os.path.join(folder, f".{name}.making")


def _delete_marker(worktree: Worktree) -> None:
    """Sync the deletion before an agent works there: a marker that comes back would make its work look half made."""
    os.unlink(_marker_path(worktree))
    sync_directory(os.path.dirname(worktree.path))


def _write_marker(worktree: Worktree) -> None:
    fd = os.open(_marker_path(worktree), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(os.path.dirname(worktree.path))


def delete_half_made(worktree: Worktree) -> None:
    """Delete what an interrupted creation left, and the entry of a worktree whose folder was deleted.

    A half-made worktree holds only what git checked out.
    """
    if is_half_made(worktree):
        remove_tree(worktree.path)
    drop_entries(worktree.repository.common_dir, worktree.path)
    if not path_exists(worktree.path):
        with suppress(FileNotFoundError):
            os.unlink(_marker_path(worktree))
