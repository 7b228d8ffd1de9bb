"""HEAD of a task's worktree, which an agent may move to another branch or detach."""

from typing import NamedTuple

from holdfast.git.process import GitFailed
from holdfast.git.repository import ABSENT
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.failpoints import Failpoint

_COMMITTING_ACTIONS = (
    "commit",
    "cherry-pick",
    "revert",
    "merge",
    "rebase",
)  # reflog messages of new commits start with these
_FAILPOINT_MOVED = Failpoint("branch.take-over.moved")


class WorktreeHead(NamedTuple):
    """The branch that HEAD is on (None when detached) and its commit (None before the first on that branch).

    `own_tip` is the tip of the worktree's own branch; None when that does not exist.
    """

    branch: str | None
    commit: str | None
    own_tip: str | None
    own_branch: str  # the name of the worktree's own branch

    @property
    def is_on_own_branch(self) -> bool:
        return self.branch == self.own_branch


async def head_of(worktree: Worktree) -> WorktreeHead:
    """Return HEAD of the worktree. Raises while a rebase or the like is in progress there."""
    branch = await worktree.current_branch()
    commit = await worktree.head_commit()
    tip = await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")
    return WorktreeHead(branch, commit, tip, worktree.branch)


async def can_be_taken_over(worktree: Worktree, head: WorktreeHead, base: str) -> bool:
    """True when HEAD contains the task's branch, so that moving the branch there loses nothing."""
    if head.commit is None:
        return False
    return await worktree.repository.is_ancestor(head.own_tip or base, head.commit)


async def take_over(worktree: Worktree, head: WorktreeHead) -> None:
    """Move the task's branch to HEAD's commit, and HEAD to the branch. The other branch stays."""
    assert head.commit is not None, "there is something to take over"
    if head.own_tip != head.commit:
        await worktree.repository.set_ref(f"refs/heads/{worktree.branch}", head.commit, head.own_tip or ABSENT)
    _FAILPOINT_MOVED()
    await attach_head(worktree)


async def attach_head(worktree: Worktree) -> None:
    """Point HEAD at the worktree's own branch. Files and index do not change."""
    await worktree.git.execute(
        "symbolic-ref", "-m", "holdfast: back to the task's branch", "HEAD", f"refs/heads/{worktree.branch}"
    )


async def is_related(worktree: Worktree, base: str, commit: str) -> bool:
    """True when two commits have a common ancestor, so that they can be merged."""
    return await worktree.repository.merge_base(base, commit) is not None


def describe_stray_head(worktree: Worktree, head: WorktreeHead, base: str) -> str:
    """Return a message with the problem and a command that solves it without changing a file."""
    at, branch, path = head.own_tip or base, worktree.branch, worktree.path
    where = f"on the branch {head.branch}" if head.branch is not None else "on no branch"
    problem = (
        f"{path} is {where}, whose history does not contain {at[:12]}"
        if not head.is_on_own_branch
        else f"the branch {branch} has no commit in common with {at[:12]}, where the task started"
    )
    target = at if not head.is_on_own_branch else base
    return (
        f"{problem}, so it cannot be merged. Put it back on its branch {branch}, without changing any file, with: "
        f"git -C {path} symbolic-ref HEAD refs/heads/{branch} && git -C {path} reset {target}"
    )


async def is_made_here(worktree: Worktree, base: str, commit: str) -> bool:
    """True when all commits since `base` were made in this worktree, according to its reflog."""
    new = (await worktree.repository.git.query("rev-list", f"{base}..{commit}")).lines
    return set(new) <= set(await _commits_made_here(worktree))


async def _commits_made_here(worktree: Worktree) -> list[str]:
    answer = await worktree.git.run("log", "--walk-reflogs", "--format=%H %gs", "HEAD", "--")
    entries = [line.partition(" ") for line in answer.lines if answer.code == 0]
    return list(dict.fromkeys(oid for oid, _, action in entries if action.startswith(_COMMITTING_ACTIONS)))


async def abandoned_commits(worktree: Worktree, base: str, known_refs: str) -> list[str]:
    """Return commits that were made in this worktree since `base` and that HEAD does not contain, newest first.

    `known_refs` is a pattern for the refs of commits that were undone on purpose.
    """
    commits = await _commits_made_here(worktree)
    if not commits:
        return []
    try:
        return (await worktree.git.query("rev-list", *commits, "--not", "HEAD", base, f"--glob={known_refs}")).lines
    except GitFailed:
        return []  # one of them does not exist any more
