"""A worktree of ours: made, checked before every write, and removed only when nothing in it would be lost."""

import os
import shutil
from typing import NamedTuple

from holdfast.git.process import Git, GitFailed
from holdfast.git.repository import Repository
from holdfast.leaf.errors import Denied


class NotOurWorktree(Denied):
    """A folder is not the worktree it should be. Nothing is written there."""


class Worktree:
    """A folder that should be a worktree of this repository on this branch."""

    def __init__(self, repository: Repository, path: str, branch: str) -> None:
        self.repository = repository
        self.path = path
        self.branch = branch
        self.git = Git(path, mark=repository.mark, inside=True)

    async def must_be_ours(self) -> str:
        """Check that it is, and return its own git directory.

        Before every write: a folder that lost its `.git`, or was made anew as a plain folder, belongs to whatever
        repository encloses it, and a commit there would take the user's files.
        """
        try:
            answer = await self.git.ask(
                "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--absolute-git-dir"
            )
        except (GitFailed, FileNotFoundError) as error:
            raise NotOurWorktree(f"{self.path} is no worktree any more ({error}); nothing was written there") from None
        top, common, own = answer.lines
        if os.path.realpath(top) != os.path.realpath(self.path):
            raise NotOurWorktree(f"{self.path} belongs to the repository at {top}; nothing was written there")
        if (
            os.path.realpath(common) != self.repository.common_dir
            or os.path.realpath(own) == self.repository.common_dir
        ):
            raise NotOurWorktree(f"{self.path} is not a worktree of {self.repository.common_dir}; nothing was written")
        on = await self.git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        if on.text != self.branch:
            raise NotOurWorktree(
                f"{self.path} is on {on.text or 'no branch'}, not on {self.branch}; "
                f"switch it back with git -C {self.path} switch {self.branch}"
            )
        return own


class Change(NamedTuple):
    """One path that differs from HEAD: git's two letters, and the path.

    `foreign` when it is a repository of its own, a submodule or a nested one, with something in it that is not
    in a commit which HEAD names.
    """

    status: str
    path: str
    foreign: bool = False


class Status(NamedTuple):
    """What `git status` saw: the commit, and everything that is not in it and not ignored."""

    head: str
    changes: tuple[Change, ...]

    @property
    def clean(self) -> bool:
        return not self.changes


async def status_of(worktree: Worktree) -> Status:
    answer = await worktree.git.ask(
        "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=none"
    )
    head = ""
    changes: list[Change] = []
    fields = iter(answer.fields())
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            head = value if name == "branch.oid" else head
        elif kind == "?":
            changes.append(Change("??", rest, foreign=rest.endswith("/")))
        else:
            about = rest.split(" ", _FIELDS_BEFORE_PATH[kind])
            changes.append(Change(about[0], about[-1], foreign=about[1].startswith("S")))
            if kind == "2":
                next(fields)  # where it was renamed from
    return Status(head, tuple(changes))


_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9}


async def add_worktree(worktree: Worktree, base: str) -> None:
    """Make it, on its branch; the branch too, at `base`, when it is not there. Harmless when it is made already."""
    repository = worktree.repository
    if await is_made(worktree):
        return
    await clear_half_made(worktree)
    os.makedirs(os.path.dirname(worktree.path), mode=0o700, exist_ok=True)
    if await repository.commit_of(f"refs/heads/{worktree.branch}") is None:
        await repository.git.do("branch", "--no-track", worktree.branch, base)
    await repository.git.do("worktree", "add", worktree.path, worktree.branch)


async def is_made(worktree: Worktree) -> bool:
    """Registered, on its branch, and checked out to the end: git locks a worktree while it is making it."""
    fact = await worktree.repository.worktree_at(worktree.path)
    if fact is None or fact.prunable is not None or fact.locked == _INITIALIZING or fact.branch != worktree.branch:
        return False
    return os.path.exists(os.path.join(worktree.path, ".git"))


_INITIALIZING = "initializing"


async def clear_half_made(worktree: Worktree) -> None:
    """Take away what a killed `worktree add` left: only what git itself says was never finished."""
    fact = await worktree.repository.worktree_at(worktree.path)
    if fact is None:
        return
    if fact.locked == _INITIALIZING:
        await worktree.repository.git.do("worktree", "remove", "--force", "--force", worktree.path)
    elif fact.prunable is not None:
        await forget_worktree(worktree)


async def forget_worktree(worktree: Worktree) -> None:
    """Drop the admin entry of a worktree whose folder is gone. Other entries are not ours to prune."""
    admin = await _admin_entry(worktree)
    if admin is not None and not os.path.exists(worktree.path):
        shutil.rmtree(admin)


async def _admin_entry(worktree: Worktree) -> str | None:
    folder = os.path.join(worktree.repository.common_dir, "worktrees")
    if not os.path.isdir(folder):
        return None
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
                points_to = os.path.dirname(file.read().strip())
        except OSError:
            continue
        if os.path.realpath(points_to) == os.path.realpath(worktree.path):
            return os.path.join(folder, name)
    return None
