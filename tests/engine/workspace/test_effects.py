"""Intent, effect, outcome: what the log holds after each way in which an effect can go."""

import asyncio

import msgspec
import pytest

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended, EffectUnknown
from holdfast.engine.workspace.workspace import Workspace
from holdfast.git.effects import DeleteBranch, GitEffect, MakeWorktree, ProbeOutcome, TakeSnapshot
from holdfast.leaf.errors import HoldfastError
from holdfast.store.files.store import FileStore
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.projects import Project
from tests.support.wait import until


async def newest_events(workspace: Workspace, home: str, count: int) -> list[Event]:
    return events_in(await whole(FileStore(home), workspace.run_id))[-count:]


async def leave_open(workspace: Workspace, effect: GitEffect, *, performed: bool, effect_id: str = "e-1") -> None:
    """As a crash leaves it: the intent is in the log, and its outcome is not."""
    arguments = msgspec.to_builtins(effect)
    await workspace.effects.run.append(EffectIntended(effect=effect_id, kind=effect.kind, arguments=arguments))
    if performed:
        await effect.perform(workspace.effects.site(effect_id))


async def test_intent_is_recorded_before_and_the_outcome_with_its_events(workspace: Workspace, home: str) -> None:
    await workspace.open_worktree("T-1")
    intended, happened, created = await newest_events(workspace, home, 3)
    assert isinstance(intended, EffectIntended)
    assert isinstance(happened, EffectHappened)
    assert happened.effect == intended.effect
    assert happened.settled_by == "run"
    assert isinstance(created, BranchCreated)
    assert workspace.effects.run.state.effects == {}


async def test_refused_effect_is_recorded_as_not_happened(workspace: Workspace, home: str) -> None:
    """Git refuses a commit that does not exist."""
    with pytest.raises(HoldfastError):
        await workspace.effects.perform(MakeWorktree(task="T-1", base="0" * 40), task="T-1")
    intended, outcome = await newest_events(workspace, home, 2)
    assert isinstance(intended, EffectIntended)
    assert isinstance(outcome, EffectDidNotHappen)
    assert outcome.reason


@pytest.mark.parametrize("performed", [False, True])
async def test_settle_asks_the_repository_what_a_crash_left_open(
    workspace: Workspace, home: str, project: Project, performed: bool
) -> None:
    effect = MakeWorktree(task="T-1", base=project.git("rev-parse", "main"))
    await leave_open(workspace, effect, performed=performed)
    (settled,) = await workspace.effects.settle()
    assert settled.probe.outcome is (ProbeOutcome.YES if performed else ProbeOutcome.NO)
    assert workspace.effects.run.state.effects == {}
    created = [event for event in await newest_events(workspace, home, 2) if isinstance(event, BranchCreated)]
    assert [event.task for event in created] == (["T-1"] if performed else [])


async def test_effect_of_a_newer_version_stays_open_and_is_reported_once(workspace: Workspace, home: str) -> None:
    await workspace.effects.run.append(EffectIntended(effect="e-1", kind="teleport", arguments={}))
    for _ in range(2):
        (settled,) = await workspace.effects.settle()
        assert settled.probe.outcome is ProbeOutcome.UNKNOWN
    events = events_in(await whole(FileStore(home), workspace.run_id))
    assert sum(isinstance(event, EffectUnknown) for event in events) == 1
    assert list(workspace.effects.run.state.effects) == ["e-1"]


async def test_effects_in_one_worktree_run_one_at_a_time(workspace: Workspace, home: str) -> None:
    await workspace.open_worktree("T-1")
    names = [f"turn-{number}" for number in range(3)]
    await asyncio.gather(*(workspace.effects.perform(TakeSnapshot(task="T-1", name=name)) for name in names))
    kinds = [type(event) for event in await newest_events(workspace, home, 6)]
    assert kinds == [EffectIntended, EffectHappened] * 3


async def test_cancelled_effect_is_settled_before_the_cancellation_goes_on(workspace: Workspace) -> None:
    """Whatever git had done by then, the log knows it."""
    effect = MakeWorktree(task="T-1", base=await workspace.tip())
    performing = asyncio.create_task(workspace.effects.perform(effect, task="T-1"))
    await until(lambda: bool(workspace.effects.run.state.effects))
    performing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await performing
    assert workspace.effects.run.state.effects == {}


async def test_branch_that_moved_is_not_deleted(workspace: Workspace, project: Project) -> None:
    """The intent names the commit that may go: a newer one is somebody's work."""
    await workspace.open_worktree("T-1")
    branch, old = workspace.place("T-1").branch, await workspace.tip("T-1")
    await workspace.remove_worktree("T-1")
    project.commit({"b.txt": "b\n"}, "More")
    project.git("update-ref", f"refs/heads/{branch}", "main")
    with pytest.raises(HoldfastError):
        await workspace.effects.perform(DeleteBranch(branch=branch, commit=old, merged_into="main"))
    assert project.tip(branch) == project.tip("main")
