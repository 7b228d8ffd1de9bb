"""Facts about a repository: its branches, refs, worktrees and remotes.

Nothing is remembered that git can change. Refs and recent commits are read from their files where these are plain, and
asked from git otherwise.
"""

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.work.names import BRANCH_PREFIX
from holdfast.git.confinement import Confinement
from holdfast.git.process import Git, GitFailed, ProgramOutput
from holdfast.git.ref_files import AskGit, CommitObject, has_checkout, has_no_refs, read_commit, read_ref
from holdfast.git.worktree_admin import is_readable
from holdfast.leaf.errors import BadInput

_MAX_KEPT_DIFFS = 8

OBJECT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")  # in full


class WorktreeInfo(NamedTuple):
    """One entry of `git worktree list`. `branch` is None when HEAD is detached."""

    path: str
    head: str | None
    branch: str | None
    locked: str | None = None
    prunable: str | None = None
    bare: bool = False


class RefInfo(NamedTuple):
    name: str
    commit: str
    committed_at: str
    subject: str


class Repository:
    """A repository, opened by its common directory, so that nothing reads or changes the user's checkout."""

    def __init__(
        self, common_dir: str, *, env_markers: Mapping[str, str] | None = None, fd_marker: str | None = None
    ) -> None:
        self.common_dir = common_dir
        self.env_markers = dict(env_markers or {})
        self.fd_marker = fd_marker
        self.captures: dict[str, object] = {}  # by the worktree's path: what `last_capture` keeps
        self._confirmed_commits: set[str] = set()  # git has them, and a ref kept them
        self._trees: dict[str, str] = {}  # of commits
        self._diffs: dict[tuple[str, str], bytes] = {}  # of commits or trees
        self.identity_known_in: set[bool] = set()  # git knows the user in worktrees (True), in the repository (False)
        self.confine: Callable[[str], Confinement | None] = lambda _: None  # takes the path of a worktree
        self.git = Git(common_dir, env_markers={**self.env_markers, "GIT_DIR": common_dir}, fd_marker=fd_marker)

    async def resolve_base(self, path: str, name: str | None = None) -> tuple[str, str]:
        """Return the commit that a name resolves to, and the branch of that name, or the commit if it is not a branch.

        Without a name, resolves HEAD in `path`, the user's folder: each worktree has its own HEAD.
        """
        git = Git(path)
        commit = await commit_of(git, "HEAD" if name is None else name)
        if commit is None and name is None:
            raise BadInput(f"{path} has no commit yet; make one first: git commit --allow-empty -m 'Begin'")
        if commit is None:
            raise BadInput(f"there is no branch or commit {name!r} in {self.common_dir}")
        if name is None:
            branch = await git.run("symbolic-ref", "--quiet", "--short", "HEAD")
            return commit, branch.text or commit
        ref = f"refs/heads/{name}"
        return commit, name if ref in await self.refs(ref) else commit

    async def commit_of(self, rev: str) -> str | None:
        """Return the commit that a name resolves to; None when it resolves to none.

        Git reports an unreadable ref as missing. So the file of a missing ref is read here: that raises on a bad disk.
        """
        try:
            return self.read_commit_of(rev)
        except AskGit:
            commit = await commit_of(self.git, rev)
        if commit is None and rev.startswith("refs/") and is_readable(os.path.join(self.common_dir, rev)):
            commit = await commit_of(self.git, rev)
        if commit is not None and rev.startswith("refs/"):
            self._confirmed_commits.add(commit)
        return commit

    def read_commit_of(self, rev: str) -> str | None:
        """Resolve a full ref or object id from the files. A ref counts only when its commit exists.

        Raises `AskGit` when only git can tell.
        """
        if not rev.startswith("refs/"):
            self.read_commit(rev)
            return rev
        self.git.must_be_plain()
        oid = read_ref(self.common_dir, rev)
        if oid is not None and oid not in self._confirmed_commits:
            self.read_commit(oid)
        return oid

    def read_commit(self, oid: str) -> CommitObject:
        """Return a recent commit from its file. Raises `AskGit` when only git can read it."""
        self.git.must_be_plain()
        return read_commit(self.common_dir, oid)

    async def tree_of(self, commit: str) -> str:
        """Return the tree of a commit, given by its full id."""
        if commit not in self._trees:
            try:
                self._trees[commit] = self.read_commit(commit).tree
            except AskGit:
                self._trees[commit] = (await self.git.query("rev-parse", "--verify", f"{commit}^{{tree}}")).text
        return self._trees[commit]

    async def raw_diff(self, old: str, new: str) -> list[str]:
        """Return `git diff-tree --raw` between two commits or trees: for each path a field of facts, then the path.

        The difference between two objects never changes: it is asked for once.
        """
        old, new = self._recent_tree(old), self._recent_tree(new)
        if (old, new) not in self._diffs:
            if len(self._diffs) >= _MAX_KEPT_DIFFS:
                self._diffs.clear()
            diff = ("diff-tree", "-r", "-z", "--no-renames", "--raw", old, new, "--")
            self._diffs[old, new] = (await self.git.query(*diff)).stdout
        return ProgramOutput(0, self._diffs[old, new], "").fields()

    def _recent_tree(self, oid: str) -> str:
        """Return the tree of a recent commit, and any other object as it is."""
        try:
            return self.read_commit(oid).tree
        except AskGit:
            return oid

    async def branch_commit(self, name: str) -> str | None:
        """Return the tip of the branch with exactly this name; None when there is none, as for `main~1`."""
        ref = f"refs/heads/{name}"
        return await self.commit_of(ref) if (await self.git.run("check-ref-format", ref)).code == 0 else None

    async def refs(self, *prefixes: str) -> dict[str, str]:
        """Return every ref under these prefixes with its object id."""
        self.git.must_be_plain()
        if prefixes and all(has_no_refs(self.common_dir, prefix) for prefix in prefixes):
            return {}
        answer = await self.git.query("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
        return {name: oid for oid, _, name in (line.partition(" ") for line in answer.lines)}

    async def is_ancestor(self, older: str, newer: str) -> bool:
        if older == newer:
            return True
        with suppress(AskGit):
            if older in self.read_commit(newer).parents:
                return True
        with suppress(AskGit):
            if newer in self.read_commit(older).parents:
                return False
        answer = await self.git.run("merge-base", "--is-ancestor", older, newer)
        if answer.code > 1:
            raise GitFailed("merge-base --is-ancestor", answer.code, answer.stderr)
        return answer.code == 0

    async def is_in_user_refs(self, commit: str) -> bool:
        """True when a branch, tag or remote-tracking branch of the user contains this commit."""
        return not (await self.git.query("rev-list", "--max-count=1", commit, *self._exclude_user_refs())).text

    async def count_unshared(self, commits: Sequence[str]) -> int:
        """Count the commits that no branch, tag or remote-tracking branch of the user contains."""
        return int((await self.git.query("rev-list", "--count", *commits, *self._exclude_user_refs())).text)

    async def newest_shared(self, base: str, head: str, ignored_branches: Sequence[str] = ()) -> str | None:
        """Return the newest commit between `base` and `head` that other branches contain too; None when there is none.

        The branches in `ignored_branches` do not count.
        """
        commits = (await self.git.query("rev-list", "--first-parent", f"{base}..{head}")).lines
        mains = await self.refs(f"refs/heads/{BRANCH_PREFIX}*/main")
        unshared = set(
            (
                await self.git.query(
                    "rev-list", f"{base}..{head}", *self._exclude_user_refs(ignored_branches), *mains, "--"
                )
            ).lines
        )
        return next((commit for commit in commits if commit not in unshared), None)

    def _exclude_user_refs(self, ignored_branches: Sequence[str] = ()) -> list[str]:
        """Exclude what the user's branches, tags and remotes contain. A detached HEAD keeps nothing for long."""
        return [
            "--not",
            f"--exclude={BRANCH_PREFIX}*",
            *(f"--exclude={name}" for name in ignored_branches),
            "--branches",
            "--tags",
            f"--exclude=*/{BRANCH_PREFIX}*",
            "--remotes",
        ]

    async def merge_base(self, first: str, second: str) -> str | None:
        with suppress(AskGit):
            if (self.read_commit_of(first) or first) == second:
                return second
        answer = await self.git.run("merge-base", first, second)
        if answer.code > 1:
            raise GitFailed("merge-base", answer.code, answer.stderr)
        return answer.text or None

    async def empty_tree(self) -> str:
        return (await self.git.execute("hash-object", "-t", "tree", "-w", os.devnull)).text

    async def make_branch(self, name: str, commit: str) -> None:
        """Create a branch at this commit; does nothing when it is there already."""
        ref = f"refs/heads/{name}"
        if (await self.git.run("check-ref-format", ref)).code:
            raise BadInput(f"{name!r} is not a valid branch name; choose another")
        tip = await self.commit_of(ref)
        if tip not in (None, commit):
            raise BadInput(f"the branch {name} exists already, at {tip[:12]}; choose another name")
        if tip is None:
            await self.set_ref(ref, commit, ABSENT)

    async def describe_refs(self, *prefixes: str) -> list[RefInfo]:
        """Return refs with the time and subject of their commits."""
        fields = "%(refname)%09%(objectname)%09%(committerdate:iso-strict)%09%(contents:subject)"
        answer = await self.git.query("for-each-ref", f"--format={fields}", *prefixes)
        return [RefInfo(*line.split("\t", 3)) for line in answer.lines]

    async def worktrees(self) -> list[WorktreeInfo]:
        answer = await self.git.query("worktree", "list", "--porcelain", "-z")
        return [_parse_worktree(block) for block in _split_blocks(answer.fields())]

    async def checkouts_of(self, branch: str) -> list[WorktreeInfo]:
        """Return the worktrees in which a branch is checked out, without starting git when it is in none."""
        if not has_checkout(self.common_dir, branch):
            return []
        return [worktree for worktree in await self.worktrees() if worktree.branch == branch]

    def is_being_rebased(self, branch: str) -> bool:
        """True while a rebase will move the branch at its end: until then no worktree has it checked out."""
        git_dirs = [self.common_dir, *glob.glob(os.path.join(glob.escape(self.common_dir), "worktrees", "*"))]
        kinds = ("rebase-merge", "rebase-apply")
        files = [os.path.join(git_dir, kind, "head-name") for git_dir in git_dirs for kind in kinds]
        return f"refs/heads/{branch}" in [_read_text(file) for file in files]

    async def set_ref(self, name: str, new: str, old: str | None = None) -> None:
        """Set a ref; with `old` only if it still points there, with `old=ABSENT` only if it does not exist."""
        await self.git.execute("update-ref", "--create-reflog", name, new, *([old] if old is not None else []))

    async def delete_ref(self, name: str, old: str) -> None:
        """Delete a ref if it still points to `old`."""
        await self.git.execute("update-ref", "-d", name, old)

    async def save_ref(self, ref: str, oid: str) -> str:
        """Save an object under a ref, with a numeric suffix when the ref holds another object. Returns the ref."""
        existing = await self.refs(ref, f"{ref}-*")
        name, number = ref, 1
        while existing.get(name, oid) != oid:
            number += 1
            name = f"{ref}-{number}"
        if name not in existing:
            await self.set_ref(name, oid, ABSENT)
        return name

    async def remotes(self) -> list[str]:
        return (await self.git.query("remote")).lines


ABSENT = ""  # for update-ref: the ref must not exist


async def find_repository(path: str, *, env_markers: Mapping[str, str] | None = None) -> Repository:
    """Return the repository that a folder belongs to."""
    if not os.path.isdir(path):
        raise BadInput(f"{path} is not a folder; pass the path of a git repository")
    answer = await Git(path).run("rev-parse", "--path-format=absolute", "--git-common-dir")
    if answer.code:
        raise BadInput(f"{path} is not in a git repository ({' '.join(answer.stderr.split())}); make one with git init")
    return Repository(os.path.realpath(answer.text), env_markers=env_markers)


async def find_checkout(path: str) -> tuple[Repository, str | None]:
    """Return the repository that a folder belongs to, and the top folder of its worktree; None when it is in none."""
    if os.path.isdir(path):
        answer = await Git(path).run("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
        if answer.code == 0 and len(answer.lines) == 2:  # noqa: PLR2004 - a path may contain a newline
            common_dir, top = map(os.path.realpath, answer.lines)
            return Repository(common_dir), top
    repository = await find_repository(path)
    try:
        return repository, await worktree_top(path)
    except BadInput:
        return repository, None


async def worktree_top(path: str) -> str:
    """Return the top folder of the worktree that a folder belongs to."""
    answer = await Git(path).run("rev-parse", "--path-format=absolute", "--show-toplevel")
    if answer.code:
        raise BadInput(f"{path} is not in a worktree ({' '.join(answer.stderr.split())})")
    return os.path.realpath(answer.text)


async def commit_of(git: Git, rev: str) -> str | None:
    """Resolve a name as git does: returns None also for a ref that git could not read."""
    answer = await git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}")
    if answer.code and "fatal:" in answer.stderr:  # git could not look, which is not the same as "there is none"
        raise GitFailed("rev-parse --verify", answer.code, answer.stderr)
    return answer.text if answer.code == 0 else None


def _read_text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read()).strip()
    except OSError:
        return None


def _split_blocks(fields: list[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for field in fields:
        if field:
            blocks[-1].append(field)
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _parse_worktree(block: list[str]) -> WorktreeInfo:
    facts = {name: value for name, _, value in (field.partition(" ") for field in block)}
    branch = facts.get("branch")
    return WorktreeInfo(
        path=facts["worktree"],
        head=facts.get("HEAD"),
        branch=branch.removeprefix("refs/heads/") if branch is not None else None,
        locked=facts.get("locked"),
        prunable=facts.get("prunable"),
        bare="bare" in facts,
    )
