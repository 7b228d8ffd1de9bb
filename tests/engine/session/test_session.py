"""A whole session in this process: how it starts, what it refuses, and how it ends."""

import asyncio
import shutil

import pytest

from holdfast.core.decide.actions import Action, ActionKind
from holdfast.core.decide.analysis import Analysis
from holdfast.core.decide.resume import Choice, ResumeChoice
from holdfast.core.events.conversation import TurnStarted
from holdfast.core.events.session import ResumeChosen, SessionEnd, SessionStart
from holdfast.core.events.work import TaskRestarted
from holdfast.engine.home import Home
from holdfast.engine.session.session import SessionHandle, run_session
from holdfast.leaf.errors import BadInput, DecisionNeeded, NothingToDo
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.sessions import HANG, WRITE_HELLO, RunHome, open_parts
from tests.support.wait import until


def no_choice(_: Analysis) -> ResumeChoice | None:
    return None


def restart(_: Analysis) -> ResumeChoice | None:
    return ResumeChoice(Choice.RESTART)


async def run_with_failed_task(runs: RunHome) -> str:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        for action in (Action(ActionKind.START, "T-1"), Action(ActionKind.FAIL, "T-1", reason="iter_cap")):
            await parts.steps.run(action)
    async with open_run(FileStore(runs.home), run_id) as run:
        await run.begin_session(SessionStart(command="resume"), SessionEnd(reason="iter_cap"))
    return run_id


async def end_reasons(runs: RunHome, run_id: str) -> list[str | None]:
    return [event.reason for event in await runs.events(run_id, SessionEnd)]


async def test_session_runs_to_the_end_and_says_so_last(runs: RunHome) -> None:
    run_id = await runs.new_run()
    ended = await run_session(Home(runs.home), run_id, no_choice)
    assert ended.reason == "all_done"
    assert [start.command for start in await runs.events(run_id, SessionStart)] == ["plan", "run"]
    assert (await runs.event_types(run_id))[-1] == SessionEnd.type


async def test_finished_run_has_nothing_to_resume(runs: RunHome) -> None:
    run_id = await runs.new_run()
    await run_session(Home(runs.home), run_id, no_choice)
    before = await runs.event_types(run_id)
    with pytest.raises(NothingToDo):
        await run_session(Home(runs.home), run_id, no_choice)
    assert await runs.event_types(run_id) == before


async def test_run_without_a_plan_cannot_start(runs: RunHome) -> None:
    await FileStore(runs.home).create("empty-abc234")
    with pytest.raises(NothingToDo, match="before its plan was recorded"):
        await run_session(Home(runs.home), "empty-abc234", no_choice)


async def test_stop_before_the_loop_ends_the_session_without_a_turn(runs: RunHome) -> None:
    run_id, handle = await runs.new_run(), SessionHandle()
    handle.stop("stopped")
    ended = await run_session(Home(runs.home), run_id, no_choice, handle=handle)
    assert ended.reason == "stopped"
    assert await runs.events(run_id, TurnStarted) == []


async def test_cancelled_session_records_who_stopped_it(runs: RunHome) -> None:
    """A second Ctrl-C is no crash."""
    runs.play(HANG)
    run_id, handle = await runs.new_run(), SessionHandle()
    session = asyncio.create_task(run_session(Home(runs.home), run_id, no_choice, handle=handle))
    async for batch in FileStore(runs.home).log(run_id).follow():
        if b'"turn.started"' in batch.data:
            break
    session.cancel()
    await until(session.done)
    assert session.cancelled()
    assert await end_reasons(runs, run_id) == ["planned", "interrupted"]


async def test_interrupted_session_is_continued_without_a_choice(runs: RunHome) -> None:
    runs.play(HANG, WRITE_HELLO)
    run_id, handle = await runs.new_run(), SessionHandle()
    session = asyncio.create_task(run_session(Home(runs.home), run_id, no_choice, handle=handle))
    async for batch in FileStore(runs.home).log(run_id).follow():
        if b'"turn.started"' in batch.data:
            break
    handle.stop("interrupted")
    assert (await session).reason == "interrupted"
    assert (await run_session(Home(runs.home), run_id, no_choice)).reason == "all_done"
    assert runs.show(run_id, "hello.txt") == "hello"


async def test_failed_task_needs_a_decision_and_nothing_is_touched_before(runs: RunHome) -> None:
    run_id = await run_with_failed_task(runs)
    before = await runs.event_types(run_id)
    with pytest.raises(DecisionNeeded, match="--on-issue"):
        await run_session(Home(runs.home), run_id, no_choice)
    assert await runs.event_types(run_id) == before


async def test_restart_is_recorded_before_it_is_done(runs: RunHome) -> None:
    run_id = await run_with_failed_task(runs)
    ended = await run_session(Home(runs.home), run_id, restart)
    assert ended.reason == "all_done"
    types = await runs.event_types(run_id)
    assert types.index(ResumeChosen.type) < types.index(TaskRestarted.type)


async def test_lost_repository_is_named_and_the_run_kept(runs: RunHome) -> None:
    run_id = await runs.new_run()
    shutil.rmtree(runs.project.path)
    with pytest.raises(BadInput, match="holdfast doctor --repo"):
        await run_session(Home(runs.home), run_id, no_choice)
    assert await end_reasons(runs, run_id) == ["planned"]
