"""Sets the worktrees and branches of a run back to a point: the file part of a rewind.

The rewind is in the log first. A session that finds one whose files did not follow finishes it before anything else.
"""

import os

from holdfast.core.events.rewind import BranchPoint, RewindAxis, RewindFinished
from holdfast.core.state import Branch, BranchStatus, RunState
from holdfast.core.work.names import SALVAGE_REFS, worktree_names, worktree_names_at
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import DeleteBranch, KeepSnapshots, RemoveWorktree, RestoreBranch, RewindWorktree
from holdfast.git.repository import Repository
from holdfast.git.snapshot import snapshot_head
from holdfast.leaf.errors import Denied
from holdfast.leaf.failpoints import failpoint_pair

_FAILPOINT = failpoint_pair("rewind.finish")


async def branch_targets(repository: Repository, run_id: str, then: RunState) -> list[BranchPoint]:
    """Return where the branches of a run were at a point; raises `Denied` when git does not have that any more."""
    found: list[BranchPoint] = []
    for name, branch in then.branches.items():
        if branch.status is BranchStatus.DELETED or branch.base is None:
            continue
        if branch.task is None and name != worktree_names(run_id).branch:
            continue  # of an agent
        tip = await _tip_at(repository, branch, name)
        found.append(BranchPoint(name, branch.base, tip, branch.unsaved or tip, branch.task))
    return found


async def _tip_at(repository: Repository, branch: Branch, name: str) -> str:
    for commit in (branch.unsaved, branch.committed, branch.tip, branch.base):
        if commit is None:
            continue
        if await repository.commit_of(commit) is None:
            raise Denied(
                f"git does not have the commit {commit[:12]} any more, at which {name} was; choose another point"
            )
        return await snapshot_head(repository, commit) if commit == branch.unsaved else commit
    raise Denied(f"the log does not tell where {name} was; choose another point")


async def finish_rewind(workspace: Workspace, then: RunState | None = None) -> list[str]:
    """Bring worktrees and branches to the point of the last rewind, if they are not there yet.

    Returns the refs of what they were. After a crash, another call finishes the rest. `then` is the state at the point,
    if it is known.
    """
    run = workspace.effects.run
    rewinding = run.state.rewinding
    if rewinding is None:
        return []
    salvaged: list[str] = []
    if rewinding.only != RewindAxis.CONVERSATION:
        targets = rewinding.branches
        if not targets:
            then = then or await run.state_at(rewinding.position)
            targets = await branch_targets(workspace.repository, workspace.run_id, then)
        if rewinding.snapshots:
            await workspace.effects.perform(KeepSnapshots(refs=rewinding.snapshots))
        salvaged += await _delete_others(workspace, {target.branch for target in targets})
        for target in targets:
            salvaged += await _rewind_branch(workspace, target)
    _FAILPOINT.before()
    await run.append(RewindFinished(salvaged=salvaged))
    _FAILPOINT.after()
    return salvaged


async def _rewind_branch(workspace: Workspace, target: BranchPoint) -> list[str]:
    task, effects = target.task, workspace.effects
    if await workspace.repository.commit_of(f"refs/heads/{target.branch}") is None:
        await effects.perform(RestoreBranch(task=task, base=target.base, commit=target.tip), task=task)
    await workspace.relink(task)
    if not os.path.lexists(workspace.worktree(task).path):
        await workspace.open_worktree(task, base=target.base)
    result = await effects.perform(RewindWorktree(task=task, tip=target.tip, commit=target.commit), task=task)
    return [result["salvaged"]] if "salvaged" in result else []


async def _delete_others(workspace: Workspace, kept: set[str]) -> list[str]:
    """Delete the worktrees and branches of the run that did not exist at the point. What is only there is saved."""
    run_id, effects = workspace.run_id, workspace.effects
    main = worktree_names(run_id)
    prefix = f"refs/heads/{main.branch.rpartition('/')[0]}/"
    salvaged: list[str] = []
    for name, commit in (await workspace.repository.refs(prefix)).items():
        branch = name.removeprefix("refs/heads/")
        if branch in kept:
            continue
        folder = main.folder if branch == main.branch else f"tasks/{branch.rpartition('/')[2]}"
        place = worktree_names_at(run_id, folder)
        if os.path.lexists(os.path.join(effects.folder, place.folder)):
            removed = await effects.perform(RemoveWorktree(folder=folder))
            salvaged += [removed["salvaged"]] if "salvaged" in removed else []
        await effects.perform(DeleteBranch(branch=branch, commit=commit))
        salvaged += await workspace.repository.refs(f"{SALVAGE_REFS}{branch.removeprefix('holdfast/')}/")
    return sorted(set(salvaged))
