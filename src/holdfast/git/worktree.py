"""A worktree of ours: checked before every write, made, and taken away only after what is in it was saved."""

import os
import shutil
from typing import NamedTuple

from holdfast.git.locks import clear_locks
from holdfast.git.process import Git
from holdfast.git.repository import Repository
from holdfast.leaf.errors import Denied

_INITIALIZING = "initializing"  # the reason of git's own lock on a worktree that it has not finished
_REFTABLE = "refs/heads/.invalid"  # what HEAD says in a repository whose refs are not files
_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9}


class NotOurWorktree(Denied):
    """A folder is not the worktree it should be. Nothing is written there."""


class MovedWorktree(NotOurWorktree):
    """It is a worktree of ours, but git knows it at another place."""


class Worktree:
    """A folder that should be a worktree of this repository on this branch."""

    def __init__(self, repository: Repository, path: str, branch: str) -> None:
        self.repository = repository
        self.path = path
        self.branch = branch
        self.git = Git(path, mark=repository.mark, inside=True)

    def must_be_ours(self) -> str:
        """That this folder is a worktree of this repository, on whatever branch. Returns its own git directory.

        Before everything that reads or writes there: a folder that lost its `.git`, or was made anew as a plain
        folder, belongs to whatever repository encloses it, and a commit there would take the user's files.
        """
        own = _pointed_at(os.path.join(self.path, ".git"), "gitdir: ")
        if own is None:
            raise NotOurWorktree(
                f"{self.path} is no worktree any more: it has no .git of its own; nothing was done there, move it away"
            )
        common = _pointed_at(os.path.join(own, "commondir"))
        back = _pointed_at(os.path.join(own, "gitdir"))
        if common is None or os.path.realpath(common) != self.repository.common_dir:
            raise NotOurWorktree(
                f"{self.path} is not a worktree of {self.repository.common_dir}; nothing was done there, move it away"
            )
        if back is None or os.path.realpath(os.path.dirname(back)) != os.path.realpath(self.path):
            raise MovedWorktree(
                f"{self.path} was moved or copied: git knows it as {back}; `holdfast doctor --fix` sets that right"
            )
        return own

    async def must_be_on_branch(self) -> str:
        """That it is ours, and on its branch: before anything that moves a branch."""
        own = self.must_be_ours()
        on = await self._branch(own)
        if on != self.branch:
            raise NotOurWorktree(
                f"{self.path} is on {on or 'no branch'}, not on {self.branch}; "
                f"switch it back with git -C {self.path} switch {self.branch}"
            )
        return own

    async def _branch(self, own: str) -> str | None:
        head = _pointed_at(os.path.join(own, "HEAD"), "ref: ", relative=True)
        if head == _REFTABLE:
            answer = await self.git.run("symbolic-ref", "--quiet", "HEAD")
            head = answer.text or None
        return head.removeprefix("refs/heads/") if head is not None else None

    def last_head(self) -> str | None:
        """The commit that HEAD was last at, by the worktree's own journal; None when there is no such thing."""
        try:
            with open(os.path.join(self.must_be_ours(), "logs", "HEAD"), encoding="utf-8", errors="replace") as file:
                return file.read().rstrip("\n").rpartition("\n")[2].split(" ")[1]
        except (OSError, IndexError, NotOurWorktree):
            return None

    def clear_locks(self) -> None:
        """Take away the lock files that a killed git left; `Denied` while one is at work here."""
        refs = os.path.join(self.repository.common_dir, "refs", "heads", f"{self.branch}.lock")
        clear_locks(self.path, self.must_be_ours(), refs)


def _pointed_at(file: str, prefix: str = "", *, relative: bool = False) -> str | None:
    """The path that one of git's small files names; None when it is not such a file."""
    try:
        with open(file, "rb") as opened:
            content = os.fsdecode(opened.read()).removesuffix("\n")
    except OSError:
        return None
    if not content.startswith(prefix):
        return None
    named = content[len(prefix) :]
    return named if relative else os.path.normpath(os.path.join(os.path.dirname(file), named))


class Change(NamedTuple):
    """One path that differs from HEAD: git's two letters, and the path.

    `foreign` when it is a repository of its own, a submodule or a nested one, with something in it that is not
    in a commit which HEAD names.
    """

    status: str
    path: str
    foreign: bool = False

    @property
    def staged(self) -> bool:
        return self.status[0] not in ".?"


class Status(NamedTuple):
    """What `git status` saw: the commit (None before the first), and everything that is not in it and not ignored."""

    head: str | None
    changes: tuple[Change, ...]

    @property
    def clean(self) -> bool:
        return not self.changes

    @property
    def unmerged(self) -> list[str]:
        return [change.path for change in self.changes if change.status in _UNMERGED]

    @property
    def foreign(self) -> list[str]:
        return [change.path for change in self.changes if change.foreign]


_UNMERGED = frozenset({"DD", "AU", "UD", "UA", "DU", "AA", "UU"})


async def status_of(worktree: Worktree) -> Status:
    answer = await worktree.git.ask(
        "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=none"
    )
    head: str | None = None
    changes: list[Change] = []
    fields = iter(answer.fields())
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            head = value if name == "branch.oid" and value != "(initial)" else head
        elif kind == "?":
            changes.append(Change("??", rest, foreign=rest.endswith("/")))
        else:
            about = rest.split(" ", _FIELDS_BEFORE_PATH[kind])
            changes.append(Change(about[0], about[-1], foreign=about[1].startswith("S")))
            if kind == "2":
                next(fields)  # where it was renamed from
    return Status(head, tuple(changes))


async def unpushed_submodules(worktree: Worktree) -> list[str]:
    """Submodules that live in this worktree alone and hold commits that no remote is known to have."""
    modules = os.path.join(worktree.must_be_ours(), "modules")
    found = []
    for folder, _, files in os.walk(modules):
        if "HEAD" in files and "config" in files:
            alone = ("rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes")
            answer = await Git(folder, mark={**worktree.repository.mark, "GIT_DIR": folder}).run(*alone)
            if answer.code or answer.text:
                found.append(os.path.relpath(folder, modules))
    return found


async def add_worktree(worktree: Worktree, base: str) -> None:
    """Make it, on its branch; the branch too, at `base`, when it is not there. Harmless when it is made already."""
    repository = worktree.repository
    if await is_made(worktree):
        return
    await clear_half_made(worktree)
    os.makedirs(os.path.dirname(worktree.path), mode=0o700, exist_ok=True)
    if os.path.isdir(worktree.path) and os.listdir(worktree.path):
        raise Denied(f"{worktree.path} is in the way: it is not the worktree of {worktree.branch}; move it away")
    if await repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        await repository.git.do("branch", "--no-track", worktree.branch, base)
    await repository.git.do("worktree", "add", worktree.path, worktree.branch)


async def is_made(worktree: Worktree) -> bool:
    """Registered, on its branch, and checked out to the end: git locks a worktree while it is making it."""
    fact = await worktree.repository.worktree_at(worktree.path)
    if fact is None or fact.prunable is not None or fact.locked == _INITIALIZING or fact.branch != worktree.branch:
        return False
    return os.path.exists(os.path.join(worktree.path, ".git"))


async def clear_half_made(worktree: Worktree) -> None:
    """Take away what a killed `worktree add` left: only what git itself says was never finished, or is gone."""
    fact = await worktree.repository.worktree_at(worktree.path)
    if fact is not None and fact.locked == _INITIALIZING:
        shutil.rmtree(worktree.path, ignore_errors=True)  # it holds what git checked out, and nothing else yet
    await forget_worktree(worktree)


async def forget_worktree(worktree: Worktree) -> None:
    """Drop git's entry of a worktree whose folder is gone. Other entries are not ours to prune."""
    fact = await worktree.repository.worktree_at(worktree.path)
    if fact is not None and not os.path.exists(worktree.path):
        await worktree.repository.git.do("worktree", "remove", "--force", "--force", fact.path)
