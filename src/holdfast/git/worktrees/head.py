"""Where the HEAD of a task's worktree is, when its agent made a branch of its own or detached it."""

from typing import NamedTuple

from holdfast.git.process import GitFailed
from holdfast.git.repository import ABSENT
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.failpoints import Point

_MAKING = ("commit", "cherry-pick", "revert", "merge", "rebase")  # how notes of git begin that tell of a new commit
_CRASH_MOVED = Point("branch.take-over.moved")


class Head(NamedTuple):
    """The branch that HEAD is on (None when detached) and its commit (None before the first on that branch).

    `tip` is where the worktree's own branch is; None when that is gone.
    """

    on: str | None
    commit: str | None
    tip: str | None
    own: str  # the name of the worktree's own branch

    @property
    def is_on_own(self) -> bool:
        return self.on == self.own


async def head_of(worktree: Worktree) -> Head:
    """Raises while a rebase or the like is in progress there: whoever began it ends it."""
    on = await worktree.branch_or_none()
    commit = (await worktree.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")).text or None
    tip = await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")
    return Head(on, commit, tip, worktree.branch)


async def can_be_taken_over(worktree: Worktree, head: Head, base: str) -> bool:
    """True when HEAD has all that the task's branch has, so that nothing is left behind when the branch moves there."""
    if head.commit is None:
        return False
    return await worktree.repository.is_ancestor(head.tip or base, head.commit)


async def take_over(worktree: Worktree, head: Head) -> None:
    """Move the task's branch to where HEAD is, and HEAD to the branch. The other branch stays as it is."""
    assert head.commit is not None, "there is something to take over"
    if head.tip != head.commit:
        await worktree.repository.set_ref(f"refs/heads/{worktree.branch}", head.commit, head.tip or ABSENT)
    _CRASH_MOVED()
    await attach(worktree)


async def attach(worktree: Worktree) -> None:
    """Have HEAD name the worktree's own branch; neither files nor what is staged change."""
    await worktree.git.do(
        "symbolic-ref", "-m", "holdfast: back to the task's branch", "HEAD", f"refs/heads/{worktree.branch}"
    )


async def is_related(worktree: Worktree, base: str, commit: str) -> bool:
    """True when two commits have a common past, so that they can be merged."""
    return await worktree.repository.merge_base(base, commit) is not None


def told_of_going_astray(worktree: Worktree, head: Head, base: str) -> str:
    """What is wrong, and a command that puts it right without touching a file."""
    at, branch, path = head.tip or base, worktree.branch, worktree.path
    where = f"on the branch {head.on}" if head.on is not None else "on no branch"
    wrong = (
        f"{path} is {where}, whose history does not have {at[:12]}"
        if not head.is_on_own
        else f"the branch {branch} has no commit in common with {at[:12]}, where the task began"
    )
    target = at if not head.is_on_own else base
    return (
        f"{wrong}, so it cannot be merged. This puts it back on its branch {branch} and keeps every file as it is: "
        f"git -C {path} symbolic-ref HEAD refs/heads/{branch} && git -C {path} reset {target}"
    )


async def is_made_here(worktree: Worktree, base: str, commit: str) -> bool:
    """True when all commits since `base` were made in this worktree, by its own journal."""
    new = (await worktree.repository.git.ask("rev-list", f"{base}..{commit}")).lines
    return set(new) <= set(await _made_here(worktree))


async def _made_here(worktree: Worktree) -> list[str]:
    answer = await worktree.git.run("log", "--walk-reflogs", "--format=%H %gs", "HEAD", "--")
    made = [line.partition(" ") for line in answer.lines if answer.code == 0]
    return list(dict.fromkeys(oid for oid, _, about in made if about.startswith(_MAKING)))


async def left_behind(worktree: Worktree, base: str, known: str) -> list[str]:
    """Commits that were made in this worktree since `base` and that its HEAD does not have, the newest first.

    `known` are refs, as a pattern, of those that were taken back on purpose.
    """
    commits = await _made_here(worktree)
    if not commits:
        return []
    try:
        return (await worktree.git.ask("rev-list", *commits, "--not", "HEAD", base, f"--glob={known}")).lines
    except GitFailed:
        return []  # one of them is gone
