"""A crash during recovery is just another crash; and what cannot be told stays open until it can."""

import os

import pytest

from holdfast.core.events.effect import EffectIntended, EffectUnknown
from holdfast.core.state import EffectStatus
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import open_workspace
from holdfast.git.effects import ProbeOutcome
from holdfast.leaf.errors import HoldfastError
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support import effect_child as git_orchestrator
from tests.support.effect_child import EFFECT, INTENT
from tests.support.effect_crash import Play, Prepared, kill
from tests.support.effect_scenes import scene_of
from tests.support.effect_stage import Stage
from tests.support.events import events_in
from tests.support.logs import whole
from tests.support.processes import child

MOST = 40


async def crash_at(play: Play, point: str) -> str:
    """Returns where what the crash left is kept, to begin from it again and again."""
    play.set_back()
    with play.stage.held(point) as held, play.orchestrator() as orchestrator:
        assert held.wait(orchestrator)
        kill("both", orchestrator, play.run_id)
        held.let_go()
    crashed = f"{play.stage.folder}.crashed"
    play.stage.copy_to(crashed)
    return crashed


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        pytest.param("merge", "smudge", marks=pytest.mark.torture),
        pytest.param("merge.conflicts", "smudge", marks=pytest.mark.torture),
        pytest.param("snapshot.restore", "smudge", marks=pytest.mark.torture),
        ("merge", "post-merge"),
    ],
)
async def test_killed_at_any_command_of_the_recovery_it_recovers(prepared: Prepared, kind: str, point: str) -> None:
    play = await prepared(kind)
    stage = play.stage
    crashed = await crash_at(play, point)
    for number in range(1, MOST):
        stage.set_back(crashed)
        stage.git_fault.kill("both", number)
        with child(git_orchestrator.settle, stage.environment_with_faulty_git, stage.home, play.run_id) as settling:
            settling.hear()
            settling.wait()
        was_pending = stage.git_fault.is_pending()
        await play.finish()
        await play.must_be_as_if_nothing_had_been()
        if was_pending:
            return
    pytest.fail("so many commands?")


@pytest.mark.parametrize("kind", ["commit", "merge", "worktree.make", "merge.conflicts"])
async def test_crash_after_crash_it_is_done_once(prepared: Prepared, kind: str) -> None:
    """No session gets further than to its intent; the last one finishes. An attempt that never was uses up nothing."""
    play = await prepared(kind)
    play.set_back()
    for stop in (INTENT, INTENT, EFFECT):
        with play.orchestrator(stop=stop) as orchestrator:
            assert orchestrator.hear() == stop
            orchestrator.kill()
        async with play.reopened() as workspace:
            assert workspace.settled_effects[-1].probe.outcome is (
                ProbeOutcome.YES if stop == EFFECT else ProbeOutcome.NO
            )
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def unknown_in(stage: Stage, run_id: str) -> list[str | None]:
    return [
        event.reason
        for event in events_in(await whole(FileStore(stage.home), run_id))
        if isinstance(event, EffectUnknown)
    ]


async def open_effects(stage: Stage, run_id: str) -> list[EffectStatus]:
    async with open_run(FileStore(stage.home), run_id) as run:
        return [effect.status for effect in run.state.effects.values()]


@pytest.mark.parametrize(
    ("kind", "hidden", "said"), [("push", "remote.git", "remote.git"), ("pull_request", "bin/gh", "gh was not found")]
)
@pytest.mark.parametrize("point", [INTENT, EFFECT])
async def test_what_nobody_can_tell_stays_open_until_somebody_can(
    prepared: Prepared, kind: str, hidden: str, said: str, point: str
) -> None:
    play = await prepared(kind)
    stage = play.stage
    play.set_back()
    with play.orchestrator(stop=point) as orchestrator:
        assert orchestrator.hear() == point
        orchestrator.kill()
    path = os.path.join(stage.folder, hidden)
    os.rename(path, f"{path}.away")
    for _ in range(2):
        async with play.reopened() as workspace:
            (settled,) = workspace.settled_effects
            assert settled.probe.outcome is ProbeOutcome.UNKNOWN
            assert said in (settled.probe.reason or "")
        assert await open_effects(stage, play.run_id) == [EffectStatus.UNKNOWN]
    assert len(await unknown_in(stage, play.run_id)) == 1, "said once, as long as nothing is new"
    os.rename(f"{path}.away", path)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()


async def test_an_effect_of_a_kind_that_is_not_known_is_shown_and_left_alone(prepared: Prepared) -> None:
    play = await prepared("commit")
    stage = play.stage
    play.set_back()
    async with open_run(FileStore(stage.home), play.run_id) as run:
        await run.append(EffectIntended(effect="e" * 16, kind="time.travel", arguments={"to": 1955}))
        await run.append(EffectIntended(effect="f" * 16, kind="commit", arguments={"base": ["not", "text"]}))
    for _ in range(2):
        async with play.reopened() as workspace:
            assert [settled.probe.outcome for settled in workspace.settled_effects] == [ProbeOutcome.UNKNOWN] * 2
            assert "does not know how to ask" in (workspace.settled_effects[0].probe.reason or "")
    assert await open_effects(stage, play.run_id) == [EffectStatus.UNKNOWN] * 2
    assert len(await unknown_in(stage, play.run_id)) == 2


async def test_a_failed_push_leaves_the_run_usable(prepared: Prepared) -> None:
    play = await prepared("push")
    stage = play.stage
    play.set_back()
    os.rename(stage.remote, f"{stage.remote}.away")
    async with open_workspace(Home(stage.home), play.run_id, "resume") as workspace:
        with pytest.raises(HoldfastError, match="git push"):
            await scene_of("push").act(workspace)
    os.rename(f"{stage.remote}.away", stage.remote)
    await play.finish()
    await play.must_be_as_if_nothing_had_been()
