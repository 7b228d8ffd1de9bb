"""Handing on the work of a run: merge, push, pull request. Each happens once, however often it is asked for."""

from holdfast.engine.workspace.publish import Published, Requested, Wish, _uncommitted, published, pull_requested
from holdfast.engine.workspace.workspace import opened
from holdfast.git.effects import MergeInto
from holdfast.leaf.errors import BadInput


async def merge_run(home: str, run_id: str, into: str | None = None) -> Published:
    """Merge the run's branch into one of the user's: the one it began from, unless another is named."""
    async with opened(home, run_id, "merge") as workspace:
        repository, branch = workspace.repository, workspace.place().branch
        commit = await workspace.tip()
        target = into if into is not None else workspace.info.base or ""
        at = await repository.branch(target)
        if at is None and into is not None:
            raise BadInput(f"there is no branch {target!r} to merge into; make it with git branch, or name another")
        if at is None:
            raise BadInput(
                f"run {run_id} began from {target!r}, which is no branch (any more); name one to merge into with --into"
            )
        if await repository.is_ancestor(commit, at):
            return Published(branch, target, at, already=True, uncommitted=await _uncommitted(workspace))
        made = (await workspace.hands.perform(MergeInto(target=target, commit=commit)))["commit"]
        return Published(branch, target, made, already=False, uncommitted=await _uncommitted(workspace))


async def push_run(home: str, run_id: str, remote: str | None = None) -> Published:
    """Push the run's branch, never by force."""
    async with opened(home, run_id, "push") as workspace:
        return await published(workspace, remote)


async def request_pull(home: str, run_id: str, remote: str | None, wish: Wish) -> Requested:
    """Push, then open a pull request, unless there is one from this branch."""
    async with opened(home, run_id, "pr") as workspace:
        return await pull_requested(workspace, remote, wish)
