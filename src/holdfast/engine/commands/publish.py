"""Publishes the work of a run: merge, push, pull request. Each happens once, however often it is called."""

from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.placement import is_cluster_run
from holdfast.engine.workspace.publish import (
    PublishedBranch,
    PullRequest,
    PullRequestOptions,
    count_uncommitted,
    merge_into_branch,
    open_pull_request,
    push_branch,
)
from holdfast.engine.workspace.rewind import finish_rewind
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.git.worktrees.checkout import checkout_of, hook_in_checkout
from holdfast.leaf.errors import BadInput, NothingToDo

__all__ = ["PublishedBranch", "PullRequestOptions", "merge_run", "open_pull_request_for_run", "push_run"]


async def merge_run(home: Home, run_id: str, into: str | None = None) -> PublishedBranch:
    """Merge the run's branch into a branch of the user: the one the run started from, unless `into` names another."""
    if is_cluster_run((await view_run(home, run_id)).state):
        raise BadInput(
            f"run {run_id} works on clones of its remote, not in your checkout; push its branch with "
            f"`holdfast push {run_id}`, then git fetch, and git merge it where you want"
        )
    async with open_workspace(home, run_id, "merge") as workspace:
        await finish_rewind(workspace)
        repository, branch = workspace.repository, workspace.place().branch
        commit = await workspace.tip()
        target = into if into is not None else workspace.info.base or ""
        at = await repository.branch_commit(target)
        if at is None and into is not None:
            raise BadInput(f"there is no branch {target!r} to merge into; make it with git branch, or name another")
        if at is None:
            raise BadInput(
                f"run {run_id} began from {target!r}, which is no branch (any more); "
                f"name one: holdfast merge {run_id} --into BRANCH"
            )
        if await repository.is_ancestor(commit, at):
            _must_have_work(workspace, await count_uncommitted(workspace))
            return PublishedBranch(branch, target, at, already=True, uncommitted=await count_uncommitted(workspace))
        merge_commit = await merge_into_branch(workspace, target, commit)
        checkout = await checkout_of(repository, target)
        return PublishedBranch(
            branch,
            target,
            merge_commit,
            already=False,
            uncommitted=await count_uncommitted(workspace),
            hook_not_run=await hook_in_checkout(repository, checkout) if checkout is not None else None,
        )


def _must_have_work(workspace: Workspace, uncommitted: int) -> None:
    """Raise `NothingToDo` for a run without a commit of its own: nothing of it is in any branch."""
    own = workspace.effects.run.state.branches.get(workspace.place().branch)
    if own is None or own.tip not in (None, own.base):
        return
    files = "; what its worktree holds is not committed yet" if uncommitted else ""
    run_id = workspace.run_id
    raise NothingToDo(f"run {run_id} has no commit to merge{files}; see what it did: holdfast show {run_id}")


async def push_run(home: Home, run_id: str, remote: str | None = None) -> PublishedBranch:
    """Push the run's branch, never by force."""
    async with open_workspace(home, run_id, "push") as workspace:
        await finish_rewind(workspace)
        return await push_branch(workspace, remote)


async def open_pull_request_for_run(
    home: Home, run_id: str, remote: str | None, request: PullRequestOptions
) -> PullRequest:
    """Push, then open a pull request unless this branch has one."""
    async with open_workspace(home, run_id, "pr") as workspace:
        await finish_rewind(workspace)
        return await open_pull_request(workspace, remote, request)
