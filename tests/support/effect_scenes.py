"""One scene for each effect on a repository: what stands there before, and the act in which it is performed."""

import os
import shutil
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any, NamedTuple

import pytest

from holdfast.core.events.work import ValidationStarted
from holdfast.engine.home import Home
from holdfast.engine.workspace.publish import merge_into_branch
from holdfast.engine.workspace.task_tree import capture, take_over_head
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.git.effects import (
    CommitSeeds,
    DeleteBranch,
    DropClusterRefs,
    DropRefs,
    KeepSnapshots,
    OpenPullRequest,
    Push,
    RestoreBranch,
    RewindWorktree,
    TakeOverRefs,
)
from holdfast.git.effects.cluster import EPOCHS_FILE
from holdfast.git.snapshot import snapshot_head
from tests.support.effect_stage import Stage


class Scene(NamedTuple):
    prepare: Callable[[Stage, Workspace], Awaitable[None]]
    act: Callable[[Workspace], Awaitable[Any]]


def edit(folder: str, name: str, content: str) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


async def tip(workspace: Workspace, task: str | None = None) -> str:
    found = await workspace.repository.commit_of(f"refs/heads/{workspace.place(task).branch}")
    assert found is not None
    return found


async def _nothing(stage: Stage, workspace: Workspace) -> None:
    pass


async def _work(stage: Stage, workspace: Workspace) -> None:
    """What an agent leaves: a commit of its own, something staged, edited, deleted, new, and ignored."""
    folder = (await workspace.open_worktree("T-1")).path
    edit(folder, "own.txt", "own\n")
    stage.git("add", "own.txt", at=folder)
    stage.git("commit", "--quiet", "--no-verify", "--message=The agent's own", at=folder)
    edit(folder, "a.txt", "one\n2\n3\n")
    edit(folder, "staged.txt", "staged\n")
    stage.git("add", "staged.txt", at=folder)
    edit(folder, "new/deep.txt", "new\n")
    edit(folder, "slow-new.txt", "slow and new\n")
    edit(folder, "slow.txt", "slower\n")
    os.unlink(os.path.join(folder, "gone.txt"))


async def _committed(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    await workspace.commit("T-1", "Do it")


async def _removed(stage: Stage, workspace: Workspace) -> None:
    await _committed(stage, workspace)
    await workspace.remove_worktree("T-1")


async def _snapshots(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    for number in (1, 2, 3):
        edit(workspace.worktree("T-1").path, "a.txt", f"{number}\n")
        await workspace.snapshot("T-1", f"turn {number}")


async def _failed(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    await workspace.keep_failed("T-1", "cap")


async def _conflicting(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    other = (await workspace.open_worktree("T-2")).path
    edit(other, "a.txt", "uno\n2\n3\n")
    edit(other, "other.txt", "other\n")
    await workspace.commit("T-1", "Do it")
    await workspace.commit("T-2", "Do that")
    await workspace.merge(["T-1"])
    os.utime(os.path.join(other, "other.txt"), (0, 0))  # git has to look at it again


async def _conflicting_unclean(stage: Stage, workspace: Workspace) -> None:
    await _conflicting(stage, workspace)
    edit(workspace.worktree("T-2").path, "unfinished.txt", "in no commit\n")


async def _conflicts_resolved(stage: Stage, workspace: Workspace) -> None:
    await _conflicting(stage, workspace)
    await workspace.merge(["T-2"])
    edit(workspace.worktree("T-2").path, "a.txt", "one, uno\n2\n3\n")


async def _snapshot_then_more(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    await workspace.snapshot("T-1", "turn 1")
    folder = workspace.worktree("T-1").path
    edit(folder, "a.txt", "worse\n")
    edit(folder, "slow.txt", "slow and worse\n")
    edit(folder, "more.txt", "more\n")
    os.unlink(os.path.join(folder, "new/deep.txt"))
    stage.git("add", "more.txt", at=folder)


async def _deleted(stage: Stage, workspace: Workspace) -> None:
    """By somebody: what an agent left is in the last snapshot, and some of it is staged."""
    await _work(stage, workspace)
    await workspace.snapshot("T-1", "turn 1")
    shutil.rmtree(workspace.worktree("T-1").path)


async def _merged(stage: Stage, workspace: Workspace) -> None:
    await _committed(stage, workspace)
    await workspace.merge(["T-1"])
    stage.git("update-ref", "refs/heads/side", _commit_on(stage, "side"))


async def _merged_and_checked_out(stage: Stage, workspace: Workspace) -> None:
    """The user has the branch checked out, with a file that the merge does not change, and one that it would add."""
    await _merged(stage, workspace)
    stage.git("stash", "--quiet", "--include-untracked")
    stage.git("switch", "--quiet", "side")
    edit(stage.repo, "c.txt", "untracked\n")
    edit(stage.repo, "new/deep.txt", "new\n")


def _commit_on(stage: Stage, branch: str) -> str:
    """A commit after a branch, made as the user would in another clone."""
    clone = os.path.join(stage.folder, "clone")
    stage.git("clone", "--quiet", "--branch", branch, stage.repo, clone, at=stage.folder)
    edit(clone, "aside.txt", "aside\n")
    stage.git("add", "--all", at=clone)
    stage.git("commit", "--quiet", "--message=Aside", at=clone)
    stage.git("fetch", "--quiet", clone, branch)
    return stage.git("rev-parse", "FETCH_HEAD").strip()


async def _restore(workspace: Workspace) -> object:
    oid = await workspace.repository.commit_of(f"{workspace.place('T-1').snapshot_refs}/turn-1")
    assert oid is not None
    return await workspace.restore("T-1", oid)


async def _snapshot_then_commits(stage: Stage, workspace: Workspace) -> None:
    """After a turn, another one that committed, and left more behind."""
    await _snapshot_then_more(stage, workspace)
    folder = workspace.worktree("T-1").path
    stage.git("commit", "--quiet", "--no-verify", "--message=Later", at=folder)
    edit(folder, "a.txt", "in no commit\n")
    edit(folder, "slow.txt", "slow, and in no commit\n")


async def _rewind(workspace: Workspace) -> object:
    oid = await workspace.repository.commit_of(f"{workspace.place('T-1').snapshot_refs}/turn-1")
    assert oid is not None
    back_to = await snapshot_head(workspace.repository, oid)
    return await workspace.effects.perform(RewindWorktree(task="T-1", tip=back_to, commit=oid), task="T-1")


async def _keep_snapshots(workspace: Workspace) -> object:
    refs = await workspace.repository.refs(workspace.place("T-1").snapshot_refs)
    return await workspace.effects.perform(
        KeepSnapshots(refs={f"{ref}-kept": oid for ref, oid in refs.items() if "kept" not in ref})
    )


async def _delete_branch(workspace: Workspace) -> object:
    branch = workspace.place("T-1").branch
    at = await workspace.repository.commit_of(f"refs/heads/{branch}")
    return at and await workspace.effects.perform(DeleteBranch(branch=branch, commit=at))


async def _branch_lost(stage: Stage, workspace: Workspace) -> None:
    await _committed(stage, workspace)
    stage.git("update-ref", "-d", f"refs/heads/{workspace.place('T-1').branch}")


async def _restore_branch(workspace: Workspace) -> object:
    last = workspace.worktree("T-1").last_head()
    base = workspace.effects.run.state.branches[workspace.place("T-1").branch].base
    assert last is not None
    assert base is not None
    return await workspace.effects.perform(RestoreBranch(task="T-1", base=base, commit=last))


async def _drop_refs(workspace: Workspace) -> object:
    return await workspace.effects.perform(DropRefs(prefix=workspace.place("T-1").snapshot_refs))


async def _captured(stage: Stage, workspace: Workspace) -> None:
    """And more came into the worktree, and on its branch, since then."""
    await _work(stage, workspace)
    taken = await capture(workspace, "T-1")
    started = ValidationStarted(task_id="T-1", tree=taken.tree, head=taken.head, merging=taken.merging)
    await workspace.effects.run.append(started)
    folder = workspace.worktree("T-1").path
    edit(folder, "late.txt", "late\n")
    stage.git("add", "late.txt", at=folder)
    stage.git("commit", "--quiet", "--no-verify", "--message=Late", at=folder)
    edit(folder, "a.txt", "later\n")


async def _elsewhere(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    folder = workspace.worktree("T-1").path
    stage.git("switch", "--quiet", "--create", "feature", at=folder)
    stage.git("commit", "--quiet", "--no-verify", "--message=Elsewhere", at=folder)


async def _unlinked(stage: Stage, workspace: Workspace) -> None:
    await _work(stage, workspace)
    folder = workspace.worktree("T-1").path
    os.unlink(os.path.join(folder, ".git"))
    stage.git("init", "--quiet", at=folder)
    stage.git("add", "a.txt", at=folder)
    stage.git("commit", "--quiet", "--no-verify", "--message=Own", at=folder)


async def _failed_and_more(stage: Stage, workspace: Workspace) -> None:
    await _failed(stage, workspace)
    folder = workspace.worktree("T-1").path
    edit(folder, "mine.txt", "mine\n")
    stage.git("add", "mine.txt", at=folder)
    stage.git("commit", "--quiet", "--no-verify", "--message=Mine", at=folder)


async def _merge_into(workspace: Workspace) -> object:
    return await merge_into_branch(workspace, "side", await tip(workspace))


async def _push(workspace: Workspace) -> object:
    return await workspace.effects.perform(Push(remote="origin", commit=await tip(workspace)))


async def _pull_request(workspace: Workspace) -> object:
    return await workspace.effects.perform(OpenPullRequest(base="main", title="Please", body="Do"))


async def _remote_url(workspace: Workspace) -> str:
    return (await workspace.repository.git.query("remote", "get-url", "origin")).text


async def _continued_elsewhere(stage: Stage, workspace: Workspace) -> None:
    """Another machine took the run over and committed, while files that only this one has lie in its worktree."""
    await _committed(stage, workspace)
    await workspace.effects.perform(
        TakeOverRefs(url=await _remote_url(workspace), epoch=workspace.effects.run.epoch, tasks=(None, "T-1"))
    )
    folder = workspace.worktree("T-1").path
    edit(folder, "a.txt", "only here\n")
    run_id, epoch = workspace.run_id, workspace.effects.run.epoch
    branch, here = workspace.place("T-1").branch, f"refs/holdfast/cluster/{run_id}/{epoch}"
    elsewhere = os.path.join(stage.folder, "elsewhere")
    stage.git("clone", "--quiet", "--no-checkout", stage.repo, elsewhere, at=stage.folder)
    stage.git("switch", "--quiet", branch, at=elsewhere)
    edit(elsewhere, "there.txt", "there\n")
    stage.git("add", "--all", at=elsewhere)
    stage.git("commit", "--quiet", "--message=There", at=elsewhere)
    stage.git("push", "--quiet", "--force", stage.remote, f"HEAD:{here}/heads/T-1", at=elsewhere)
    os.unlink(os.path.join(workspace.effects.folder, EPOCHS_FILE))


async def _take_over(workspace: Workspace) -> object:
    url, epoch = await _remote_url(workspace), workspace.effects.run.epoch
    return await workspace.effects.perform(TakeOverRefs(url=url, epoch=epoch, tasks=(None, "T-1")))


async def _shared(stage: Stage, workspace: Workspace) -> None:
    await _committed(stage, workspace)
    await _take_over(workspace)


async def _drop_cluster_refs(workspace: Workspace) -> object:
    url, epoch = await _remote_url(workspace), workspace.effects.run.epoch
    return await workspace.effects.perform(DropClusterRefs(url=url, epoch=epoch))


async def _without_branch(stage: Stage, workspace: Workspace) -> None:
    """As a run stands before its seeds are committed: it has no worktree and no branch yet."""
    await workspace.remove_worktree()
    stage.git("update-ref", "-d", f"refs/heads/{workspace.place().branch}")


async def _commit_seeds(workspace: Workspace) -> object:
    base = workspace.effects.run.state.checkpoints[0].commit
    assert base is not None
    tree = (await workspace.repository.git.query("rev-parse", f"{base}^{{tree}}")).text
    return await workspace.effects.perform(CommitSeeds(base=base, tree=tree))


SCENES: dict[str, Scene] = {
    "worktree.make": Scene(_nothing, lambda workspace: workspace.open_worktree("T-1")),
    "worktree.remove": Scene(_work, lambda workspace: workspace.remove_worktree("T-1")),
    "branch.delete": Scene(_removed, _delete_branch),
    "branch.restore": Scene(_branch_lost, _restore_branch),
    "branch.take_over": Scene(_elsewhere, lambda workspace: take_over_head(workspace, "T-1")),
    "worktree.link": Scene(_unlinked, lambda workspace: workspace.relink("T-1")),
    "tree.capture": Scene(_work, lambda workspace: capture(workspace, "T-1")),
    "refs.drop": Scene(_snapshots, _drop_refs),
    "commit": Scene(_work, lambda workspace: workspace.commit("T-1", "Do it")),
    "seeds.commit": Scene(_without_branch, _commit_seeds),
    "commit.failed": Scene(_work, lambda workspace: workspace.keep_failed("T-1", "cap")),
    "commit.unwind": Scene(_failed, lambda workspace: workspace.unwind_failed("T-1")),
    "merge": Scene(_committed, lambda workspace: workspace.merge(["T-1"])),
    "merge.conflicts": Scene(_conflicting, lambda workspace: workspace.merge(["T-2"])),
    "snapshot.take": Scene(_work, lambda workspace: workspace.snapshot("T-1", "turn 1")),
    "snapshot.restore": Scene(_snapshot_then_more, _restore),
    "worktree.rewind": Scene(_snapshot_then_commits, _rewind),
    "refs.keep": Scene(_snapshots, _keep_snapshots),
    "merge.into": Scene(_merged, _merge_into),
    "push": Scene(_merged, _push),
    "pull_request": Scene(_merged, _pull_request),
    "cluster.take_over": Scene(_continued_elsewhere, _take_over),
    "cluster.drop": Scene(_shared, _drop_cluster_refs),
}
OTHERS: dict[str, tuple[str, Scene]] = {  # with their effects
    "merge commit": ("commit", Scene(_conflicts_resolved, lambda workspace: workspace.commit("T-2", "Resolve"))),
    "merge into a checkout": ("merge.into", Scene(_merged_and_checked_out, _merge_into)),
    "unclean conflicts": ("merge.conflicts", Scene(_conflicting_unclean, lambda workspace: workspace.merge(["T-2"]))),
    "tree commit": ("commit", Scene(_captured, lambda workspace: workspace.commit("T-1", "Do it"))),
    "unwind beneath": ("commit.unwind", Scene(_failed_and_more, lambda workspace: workspace.unwind_failed("T-1"))),
    "unlinked.removed": (
        "worktree.remove",
        Scene(_unlinked, lambda workspace: workspace.remove_worktree("T-1")),
    ),
    "deleted.made": ("worktree.make", Scene(_deleted, SCENES["worktree.make"].act)),
    "deleted.removed": ("worktree.remove", Scene(_deleted, SCENES["worktree.remove"].act)),
}
KINDS = [*SCENES, *OTHERS]


def scene_of(kind: str) -> Scene:
    return OTHERS[kind][1] if kind in OTHERS else SCENES[kind]


def effect_of(kind: str) -> str:
    return OTHERS[kind][0] if kind in OTHERS else kind


def some(kinds: Iterable[str], often: Container[str]) -> list[Any]:
    """For a parameter: these kinds, of which those that are not to be tried often are left to the long tests."""
    return [kind if kind in often else pytest.param(kind, marks=pytest.mark.torture) for kind in kinds]


async def build(stage: Stage, scene: Scene) -> str:
    """The stage with a run on it, right before the act. Returns the run's id."""
    run_id = await create_run(Home(stage.home), NewRun("Try", stage.repo, slug="try"))
    async with open_workspace(Home(stage.home), run_id, "run") as workspace:
        await scene.prepare(stage, workspace)
    return run_id
