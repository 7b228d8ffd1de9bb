"""An agent of which something will not die, be it killed: nobody goes on beside it, and nobody pays for it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.core.conversation.states import ConversationState
from holdfast.core.decide.tasks import finished_turns
from holdfast.leaf.errors import Denied
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from tests.support.conversations import AGENT, Place
from tests.support.frozen_process import frozen
from tests.support.scripted_agents import FACT, book

pytestmark = pytest.mark.torture


@contextmanager
def immortal(place: Place, name: str) -> Iterator[int]:
    """Something that an agent of this conversation left."""
    marks = {RUN_MARK: place.run_id, CONVERSATION_MARK: f"{place.run_id}/{name}"}
    with subprocess.Popen(["sleep", "600"], env={**os.environ, **marks}, cwd=place.cwd) as process:
        with frozen(process.pid):
            yield process.pid
        process.kill()


async def test_a_turn_that_it_cut_off_counts_as_such_and_no_other_agent_comes(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        with immortal(place, name) as pid:
            with pytest.raises(Denied, match=f"could not be killed .*{pid}"):
                await conversations.send_prompt(name, "die", place.cwd)
            state = run.state.conversations[name]
            assert (state.turns, state.interrupted_turns, finished_turns(state)) == (2, 1, 1)
            assert (state.turn, state.pid, state.state) == (None, None, ConversationState.WAITING)
            with pytest.raises(Denied, match=f"could not be killed .*{pid}"):
                await conversations.ensure_agent(name, place.cwd)
            assert [process.pid for process in place.processes()] == [pid]
        assert (await conversations.send_prompt(name, "and now?", place.cwd)).reason == "end_turn"


async def test_it_is_not_sent_away_and_its_conversation_not_over_as_long_as_it_lives(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        with immortal(place, name) as pid:
            for leave in (
                conversations.stop_agent(name, "a pause"),
                conversations.close(name, ConversationState.COMPLETED),
            ):
                with pytest.raises(Denied, match=f"could not be killed .*{pid}"):
                    await leave
            assert run.state.conversations[name].state == ConversationState.WAITING
        await conversations.close(name, ConversationState.COMPLETED)
