"""Facts about a repository, observed and never assumed: what it is, its branches, its worktrees."""

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdfast.core.work.names import BRANCHES
from holdfast.git.confinement import Confinement
from holdfast.git.process import Git, GitFailed
from holdfast.git.worktree_admin import can_be_read
from holdfast.leaf.errors import BadInput

OBJECT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # its name, in full


class WorktreeFact(NamedTuple):
    """One entry of `git worktree list`. `branch` is None when HEAD is detached."""

    path: str
    head: str | None
    branch: str | None
    locked: str | None = None
    prunable: str | None = None
    bare: bool = False


class RefFact(NamedTuple):
    name: str
    commit: str
    when: str
    subject: str


class Repository:
    """A repository by its common directory, so that nothing depends on the user's checkout or touches it."""

    def __init__(self, common_dir: str, *, mark: Mapping[str, str] | None = None, tether: str | None = None) -> None:
        self.common_dir = common_dir
        self.mark = dict(mark or {})
        self.tether = tether
        self.knows_the_user: set[bool] = (
            set()
        )  # git has said who they are: in worktrees (True), in the repository itself
        self.confine: Callable[[str], Confinement | None] = lambda _: None  # by the path of a worktree
        self.git = Git(common_dir, mark={**self.mark, "GIT_DIR": common_dir}, tether=tether)

    async def base(self, path: str, name: str | None = None) -> tuple[str, str]:
        """The commit that a name stands for, and the branch of that name; the commit again when it is no branch.

        Without a name, what HEAD is at. `path` is where the user is: each of their worktrees has a HEAD of its own.
        """
        there = Git(path)
        commit = await commit_of(there, "HEAD" if name is None else name)
        if commit is None and name is None:
            raise BadInput(f"{path} has no commit yet; make one first (git commit --allow-empty -m 'Begin')")
        if commit is None:
            raise BadInput(f"there is no branch or commit {name!r} in {self.common_dir}")
        if name is None:
            on = await there.run("symbolic-ref", "--quiet", "--short", "HEAD")
            return commit, on.text or commit
        ref = f"refs/heads/{name}"
        return commit, name if ref in await self.refs(ref) else commit

    async def commit_of(self, name: str) -> str | None:
        """The commit that a name stands for; None when it stands for none.

        Of a ref that it cannot read git says that there is none, and no word more.
        """
        commit = await commit_of(self.git, name)
        if commit is None and name.startswith("refs/") and can_be_read(os.path.join(self.common_dir, name)):
            commit = await commit_of(self.git, name)
        return commit

    async def branch(self, name: str) -> str | None:
        """The commit that the branch by exactly this name is at; None when there is none, as by `main~1`."""
        ref = f"refs/heads/{name}"
        return await self.commit_of(ref) if (await self.git.run("check-ref-format", ref)).code == 0 else None

    async def refs(self, *prefixes: str) -> dict[str, str]:
        """Every ref under these prefixes, with the object it points to."""
        answer = await self.git.ask("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        return {name: oid for oid, _, name in (line.partition(" ") for line in answer.lines)}

    async def is_ancestor(self, older: str, newer: str) -> bool:
        if older == newer:
            return True
        answer = await self.git.run("merge-base", "--is-ancestor", older, newer)
        if answer.code > 1:
            raise GitFailed("merge-base --is-ancestor", answer.code, answer.said)
        return answer.code == 0

    async def is_elsewhere(self, commit: str) -> bool:
        """True when a branch, tag or remote of the user's has this commit."""
        return not (await self.git.ask("rev-list", "--max-count=1", commit, *self._not_elsewhere())).text

    async def count_only_in(self, commits: Sequence[str]) -> int:
        """How many commits no branch, tag or remote of the user's has."""
        return int((await self.git.ask("rev-list", "--count", *commits, *self._not_elsewhere())).text)

    async def newest_shared(self, base: str, head: str, but: Sequence[str] = ()) -> str | None:
        """The newest commit after `base`, on the way to `head`, that others have too; None when there is none.

        The branches in `but` do not count.
        """
        way = (await self.git.ask("rev-list", "--first-parent", f"{base}..{head}")).lines
        mains = await self.refs(f"refs/heads/{BRANCHES}*/main")
        own = set((await self.git.ask("rev-list", f"{base}..{head}", *self._not_elsewhere(but), *mains, "--")).lines)
        return next((commit for commit in way if commit not in own), None)

    def _not_elsewhere(self, but: Sequence[str] = ()) -> list[str]:
        """What the user's own branches, tags and remotes have. Not HEAD: detached, it holds nothing for long."""
        others = [f"--exclude={name}" for name in but]
        ours = (f"--exclude={BRANCHES}*", *others, "--branches", "--tags", f"--exclude=*/{BRANCHES}*", "--remotes")
        return ["--not", *ours]

    async def merge_base(self, one: str, other: str) -> str | None:
        answer = await self.git.run("merge-base", one, other)
        if answer.code > 1:
            raise GitFailed("merge-base", answer.code, answer.said)
        return answer.text or None

    async def empty_tree(self) -> str:
        return (await self.git.do("hash-object", "-t", "tree", "-w", os.devnull)).text

    async def make_branch(self, name: str, commit: str) -> None:
        """A branch at this commit; harmless when it is there."""
        ref = f"refs/heads/{name}"
        if (await self.git.run("check-ref-format", ref)).code:
            raise BadInput(f"{name!r} cannot be the name of a branch; choose another")
        at = await self.commit_of(ref)
        if at not in (None, commit):
            raise BadInput(f"there is a branch {name} already, at {at[:12]}; choose another name")
        if at is None:
            await self.set_ref(ref, commit, ABSENT)

    async def described(self, *prefixes: str) -> list[RefFact]:
        """Refs to commits, with when and as what they were made."""
        form = "%(refname)%09%(objectname)%09%(committerdate:iso-strict)%09%(contents:subject)"
        answer = await self.git.ask("for-each-ref", f"--format={form}", *prefixes)
        return [RefFact(*line.split("\t", 3)) for line in answer.lines]

    async def worktrees(self) -> list[WorktreeFact]:
        answer = await self.git.ask("worktree", "list", "--porcelain", "-z")
        return [_worktree(block) for block in _blocks(answer.fields())]

    def is_being_rebased(self, branch: str) -> bool:
        """True while a rebase will set it in the end: meanwhile it is checked out nowhere, and still somebody's."""
        own = [self.common_dir, *glob.glob(os.path.join(glob.escape(self.common_dir), "worktrees", "*"))]
        names = [os.path.join(folder, kind, "head-name") for folder in own for kind in ("rebase-merge", "rebase-apply")]
        return f"refs/heads/{branch}" in [_content(name) for name in names]

    async def set_ref(self, name: str, new: str, old: str | None = None) -> None:
        """Move a ref; with `old` only if it is still there, and with `old=ABSENT` only if it is new."""
        await self.git.do("update-ref", "--create-reflog", name, new, *([old] if old is not None else []))

    async def delete_ref(self, name: str, old: str) -> None:
        """Delete a ref that is still at `old`."""
        await self.git.do("update-ref", "-d", name, old)

    async def keep(self, ref: str, oid: str) -> str:
        """Save an object under a ref, or under one like it when something else is kept there. Returns which."""
        taken = await self.refs(ref, f"{ref}-*")
        name, number = ref, 1
        while taken.get(name, oid) != oid:
            number += 1
            name = f"{ref}-{number}"
        if name not in taken:
            await self.set_ref(name, oid, ABSENT)
        return name

    async def remotes(self) -> list[str]:
        return (await self.git.ask("remote")).lines


ABSENT = ""  # for update-ref: the ref must not exist


async def find_repository(path: str, *, mark: Mapping[str, str] | None = None) -> Repository:
    """The repository that a folder belongs to."""
    if not os.path.isdir(path):
        raise BadInput(f"{path} is not a folder; name a git repository")
    answer = await Git(path).run("rev-parse", "--path-format=absolute", "--git-common-dir")
    if answer.code:
        raise BadInput(f"{path} is not in a git repository ({' '.join(answer.said.split())}); make one with git init")
    return Repository(os.path.realpath(answer.text), mark=mark)


async def top_of(path: str) -> str:
    """The top of the work tree that a folder belongs to."""
    answer = await Git(path).run("rev-parse", "--path-format=absolute", "--show-toplevel")
    if answer.code:
        raise BadInput(f"{path} is in no work tree ({' '.join(answer.said.split())})")
    return os.path.realpath(answer.text)


async def commit_of(git: Git, name: str) -> str | None:
    """As git tells it: None also of a ref that it could not read."""
    answer = await git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if answer.code and "fatal:" in answer.said:  # not that there is none, but that it cannot tell
        raise GitFailed("rev-parse --verify", answer.code, answer.said)
    return answer.text if answer.code == 0 else None


def _content(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read()).strip()
    except OSError:
        return None


def _blocks(fields: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for field in fields:
        if field:
            blocks[-1].append(field)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _worktree(block: list[str]) -> WorktreeFact:
    facts = {name: value for name, _, value in (field.partition(" ") for field in block)}
    branch = facts.get("branch")
    return WorktreeFact(
        path=facts["worktree"],
        head=facts.get("HEAD"),
        branch=branch.removeprefix("refs/heads/") if branch is not None else None,
        locked=facts.get("locked"),
        prunable=facts.get("prunable"),
        bare="bare" in facts,
    )
