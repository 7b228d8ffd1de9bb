"""The run loop: it starts what `decide` chooses, retries what failed, and ends for one reason."""

import asyncio

import pytest

from holdfast.core.decide.actions import Action, ActionKey, ActionKind
from holdfast.core.events.conversation import TurnStarted
from holdfast.core.events.issue import ErrorEncountered
from holdfast.core.task_state import TaskStatus
from holdfast.engine.commands.stop import request_stop
from holdfast.engine.home import Home
from holdfast.engine.session.runner import AlreadyInProgress
from holdfast.leaf.errors import BadInput
from tests.support.projects import write
from tests.support.sessions import HANG, RunHome, open_parts
from tests.support.wait import until


async def test_run_ends_when_every_task_is_done(runs: RunHome) -> None:
    run_id = await runs.new_run("T-1", "T-2")
    async with open_parts(runs, run_id) as parts:
        assert await parts.runner.run(parts.handler) == "all_done"
        assert {task.status for task in parts.state.tasks.values()} == {TaskStatus.COMPLETE}
        assert parts.runner.stuck == {}
    assert runs.show(run_id, "hello.txt") == "hello"


async def test_stop_before_start_prompts_no_agent(runs: RunHome) -> None:
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        parts.runner.stop("stopped")
        parts.runner.stop("a later reason")
        assert await parts.runner.run(parts.handler) == "stopped"
    assert await runs.events(run_id, TurnStarted) == []


async def test_stop_cancels_the_turn_in_progress(runs: RunHome) -> None:
    runs.play(HANG)
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        running = asyncio.create_task(parts.runner.run(parts.handler))
        await until(lambda: any(conversation.turn is not None for conversation in parts.state.conversations.values()))
        parts.runner.stop("interrupted")
        assert await running == "interrupted"
        assert all(conversation.turn is None for conversation in parts.state.conversations.values())
        assert parts.task.status is TaskStatus.IN_PROGRESS


async def test_stop_message_wakes_the_loop(runs: RunHome) -> None:
    """The inbox is followed while an agent works."""
    runs.play(HANG)
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        running = asyncio.create_task(parts.runner.run(parts.handler))
        await until(lambda: any(conversation.turn is not None for conversation in parts.state.conversations.values()))
        await request_stop(Home(runs.home), run_id)
        assert await running == "stopped"


async def test_step_that_keeps_failing_is_retried_then_left(runs: RunHome) -> None:
    """The worker's turn ends with an error each time; the loop goes on until nothing else can be done."""
    runs.play({"error": {"message": "out of order"}})
    run_id = await runs.new_run()
    async with open_parts(runs, run_id) as parts:
        reason = await parts.runner.run(parts.handler)
        assert reason != "all_done"
        assert list(parts.runner.stuck) == [ActionKey("task", "T-1")]
    errors = await runs.events(run_id, ErrorEncountered)
    assert [error.attempts for error in errors] == [1, 2, 3]
    assert all(error.retried and not error.resolved for error in errors)


async def test_bad_input_ends_the_session_at_once(runs: RunHome) -> None:
    """A prompt template that cannot be used does not get better by a retry."""
    run_id = await runs.new_run()
    write(runs.project.path, {".holdfast/prompts/worker.md": "{{no_such_variable}}\n"})
    async with open_parts(runs, run_id) as parts:
        with pytest.raises(BadInput, match="no_such_variable"):
            await parts.runner.run(parts.handler)
    assert await runs.events(run_id, ErrorEncountered) == []


async def test_second_start_of_a_key_in_progress_is_refused(runs: RunHome) -> None:
    """The kind is part of the key: a task called "phase 1" is not the phase 1."""
    run_id = await runs.new_run("phase 1")
    async with open_parts(runs, run_id) as parts:
        parts.runner._start(Action(ActionKind.START, "phase 1"))
        with pytest.raises(AlreadyInProgress) as refused:
            parts.runner._start(Action(ActionKind.FAIL, "phase 1"))
        assert refused.value.key == ActionKey("task", "phase 1")
        assert refused.value.key != ActionKey("phase", "1")
        await parts.runner._cancel_steps()
