"""Facts about a repository, observed and never assumed: what it is, its branches, its worktrees."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.git.process import Git, GitFailed
from holdfast.leaf.errors import BadInput


class WorktreeFact(NamedTuple):
    """One entry of `git worktree list`. `branch` is None when HEAD is detached."""

    path: str
    head: str | None
    branch: str | None
    locked: str | None = None
    prunable: str | None = None
    bare: bool = False


class Repository:
    """A repository by its common directory, so that nothing depends on the user's checkout or touches it."""

    def __init__(self, common_dir: str, *, mark: Mapping[str, str] | None = None, tether: str | None = None) -> None:
        self.common_dir = common_dir
        self.mark = dict(mark or {})
        self.tether = tether
        self.git = Git(common_dir, mark={**self.mark, "GIT_DIR": common_dir}, tether=tether)

    async def head(self) -> str:
        """The commit that the user's HEAD is at, on a branch or not."""
        answer = await self.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.code:
            raise BadInput(f"{self.common_dir} has no commit yet; make one first (git commit --allow-empty -m 'Begin')")
        return answer.text

    async def base(self, name: str | None = None) -> tuple[str, str]:
        """The commit that a branch or a name stands for, and the branch's name, or the commit again without one."""
        if name is None:
            on = await self.git.run("symbolic-ref", "--quiet", "--short", "HEAD")
            head = await self.head()
            return head, on.text or head
        commit = await self.commit_of(name)
        if commit is None:
            raise BadInput(f"there is no branch or commit {name!r} in {self.common_dir}")
        return commit, name if await self.commit_of(f"refs/heads/{name}") is not None else commit

    async def commit_of(self, name: str) -> str | None:
        """The commit that a name stands for; None when it stands for none."""
        answer = await self.git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return answer.text if answer.code == 0 else None

    async def refs(self, *prefixes: str) -> dict[str, str]:
        """Every ref under these prefixes, with the object it points to."""
        answer = await self.git.ask("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        return {name: oid for oid, _, name in (line.partition(" ") for line in answer.lines)}

    async def is_ancestor(self, older: str, newer: str) -> bool:
        answer = await self.git.run("merge-base", "--is-ancestor", older, newer)
        if answer.code > 1:
            raise GitFailed("merge-base --is-ancestor", answer.code, answer.said)
        return answer.code == 0

    async def worktrees(self) -> list[WorktreeFact]:
        answer = await self.git.ask("worktree", "list", "--porcelain", "-z")
        return [_worktree(block) for block in _blocks(answer.fields())]

    async def worktree_at(self, path: str) -> WorktreeFact | None:
        real = os.path.realpath(path)
        return next((tree for tree in await self.worktrees() if os.path.realpath(tree.path) == real), None)

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
