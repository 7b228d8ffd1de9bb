"""Merges the run's branch into a branch of the user, in two steps: build the merge, then move the branch to it.

Building changes nothing that anyone sees. The commits and the folder that it names are in the log before the branch
moves, so that a merge that is killed while git writes the user's files can be finished.
"""

from typing import NamedTuple

from holdfast.git.commit import CommitTrailers, commit_tree
from holdfast.git.merge import MergeConflicts, branch_tip, merged_tree
from holdfast.git.process import GitFailed, GitKilled
from holdfast.git.repository import Repository
from holdfast.git.worktrees.checkout import checkout_of, forward_checkout
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import Failpoint

_FAILPOINT_BUILT = Failpoint("merge.into.merged")


class BranchMoved(Denied):
    """The branch is not where it was when the merge was built."""


class BuiltMerge(NamedTuple):
    """Moves a branch from `old` to `new`. `path` is the folder where the branch is checked out, if it is."""

    old: str
    new: str
    path: str | None


async def build_merge(
    repository: Repository, target: str, branch: str, commit: str, trailers: CommitTrailers
) -> BuiltMerge:
    """Return a fast-forward if possible, else a new merge commit. `new` is `old` when the commit is merged already."""
    old = await branch_tip(repository, target)
    if await repository.is_ancestor(commit, old):
        return BuiltMerge(old, old, None)
    if repository.is_being_rebased(target):
        raise Denied(f"{target} is being rebased; finish the rebase first, then merge again")
    path = await checkout_of(repository, target)
    if await repository.is_ancestor(old, commit):
        return BuiltMerge(old, commit, path)
    try:
        tree = await merged_tree(repository, target, old, branch, commit)
    except MergeConflicts as error:
        switch = "" if path is not None else f"git switch {target} && "
        advice = f"; nothing changed. Merge it by hand: {switch}git merge {branch}"
        raise MergeConflicts(target, branch, error.paths, advice) from None
    text = f"Merge {branch} into {target}\n\n{trailers.render()}"
    new = await commit_tree(repository, tree, [old, commit], text)
    _FAILPOINT_BUILT()
    return BuiltMerge(old, new, path)


async def move_branch(repository: Repository, target: str, merge: BuiltMerge) -> None:
    """Move the branch to the merge, and the files of its checkout with it. Never overwrites the user's changes."""
    if await branch_tip(repository, target) != merge.old or await checkout_of(repository, target) != merge.path:
        raise BranchMoved(f"another git moved {target} while it was merged into; merge again")
    if merge.path is not None:
        await forward_checkout(repository, merge.path, target, merge.old, merge.new)
        return
    try:
        await repository.set_ref(f"refs/heads/{target}", merge.new, merge.old)
    except GitKilled:
        raise
    except GitFailed as error:
        if await branch_tip(repository, target) == merge.old:
            raise
        raise BranchMoved(str(error)) from None
