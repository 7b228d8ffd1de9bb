"""Real agents, killed for real, come back with the earlier conversation in their model's context.

What proves it is not what the agent says, but what its model was sent.
"""

import asyncio
import os
import re

import pytest

from holdfast.core.conversation.states import AfterInterruption
from tests.real_agents.stage import (
    DREAM,
    PATIENCE,
    PATIENT,
    RUN,
    WENT_ON,
    WHICH,
    WILLING,
    WORDS,
    WRITE,
    Stage,
    run_a_command_until_killed,
)
from tests.support.model_server.seen import Seen
from tests.support.processes import child
from tests.support.wait import until

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(480)]


def must_know_the_first_turn(seen: Seen, stage: Stage) -> None:
    """The words of it and the call, each where it was said, and not told to it by us."""
    assert any(WRITE in text for text in seen.users)
    tool = stage.setup.edit("", "").name
    assert tool in [call.name for call in seen.calls]
    assert "It is written." in "\n".join(seen.assistants)


async def test_killed_while_idle_it_comes_back(stage: Stage) -> None:
    place = stage.place
    async with place.session(consent=WILLING, deadlines=PATIENT) as (_, _, conversations):
        name = await conversations.open(stage.name)
        assert (await conversations.send_prompt(name, WRITE, place.cwd)).reason == "end_turn"
        assert stage.content("notes.txt") == "kelp-0000aa"
        stage.kill_everything()
        await stage.grow_old()
        await until(lambda: conversations.resume_need(name)[0])
        assert (await conversations.send_prompt(name, WHICH, place.cwd)).reason == "end_turn"
    assert await place.rungs() == ["fresh", stage.setup.rung]
    assert re.findall(WORDS, (await place.said())[-1]) == ["kelp-0000aa"]
    must_know_the_first_turn(stage.heard(WHICH), stage)
    assert stage.model.unexpected == []


async def test_killed_while_the_model_answers_it_comes_back_and_goes_on(stage: Stage) -> None:
    place, dreams = stage.place, asyncio.Event()

    def hint(_: str, __: str, text: str) -> None:
        if "dream" in text:
            dreams.set()

    async with place.session(consent=WILLING, deadlines=PATIENT, hint=hint) as (_, _, conversations):
        name = await conversations.open(stage.name)
        await conversations.send_prompt(name, WRITE, place.cwd)
        turn = asyncio.ensure_future(conversations.send_prompt(name, DREAM, place.cwd))
        await asyncio.wait_for(dreams.wait(), PATIENCE)
        stage.kill_everything()
        assert (await turn).reason == "interrupted"
        assert place.processes() == []
        await stage.grow_old()
        went_on = await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE)
        assert went_on is not None
        assert went_on.reason == "end_turn"
        await conversations.send_prompt(name, WHICH, place.cwd)
    assert await place.rungs() == ["fresh", stage.setup.rung]
    assert re.findall(WORDS, (await place.said())[-1]) == ["kelp-0000aa", "kelp-0000bb"]
    must_know_the_first_turn(stage.heard(WENT_ON), stage)
    assert stage.model.unexpected == []


async def test_killed_with_its_orchestrator_while_a_command_runs_nothing_of_it_writes_any_more(stage: Stage) -> None:
    place = stage.place
    stage.make_gates()
    with child(run_a_command_until_killed, place, stage.name) as orchestrator:
        await stage.command_runs()
        name, reason = orchestrator.hear_some(2)
        assert reason == "end_turn"
        orchestrator.kill()
    async with place.session(consent=WILLING, deadlines=PATIENT) as (_, _, conversations):
        assert place.processes() == []
        assert not stage.is_anybody_at_the_gate()
        await stage.grow_old()
        went_on = await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE)
        assert went_on is not None
        assert went_on.reason == "end_turn"
    assert not os.path.exists(stage.file("late.txt"))
    assert await place.rungs() == ["fresh", stage.setup.rung]
    assert len(await place.interruptions()) == 1
    seen = stage.heard(WENT_ON)
    must_know_the_first_turn(seen, stage)
    assert RUN in seen.last_user
    assert stage.model.unexpected == []
