"""Conversations with real agents: one turn after the other, cut off, cancelled, ended, and gone on with."""

import asyncio
from pathlib import Path

import pytest

from holdfast.agents.acp.driver import Deadlines
from holdfast.core.conversation.states import AfterInterruption, ConversationState, InvalidTransition
from holdfast.core.decide.tasks import was_interrupted
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.provider import OutageMet
from holdfast.core.events.session import SessionStart
from holdfast.engine.agents.conversations import AgentUnavailable
from holdfast.leaf.errors import BadInput, Denied
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.conversations import AGENT, Place, say_until_killed
from tests.support.faults import run_with_faults
from tests.support.processes import child
from tests.support.scripted_agents import FACT, KNOW, OTHERWISE, book, calls_of, kill_idle
from tests.support.wait import ticks, until

DEAF = {"hang": {"how": "deaf", "once": True}}

# Resuming


async def test_a_resumed_agent_is_not_prompted(place: Place) -> None:
    """It boots idle, and the conversation waits for input as before."""
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
    async with place.session() as (_, _, conversations):
        assert place.processes() == [], "nor started before it is needed"
        await conversations.ensure_agent(name, place.cwd)
        assert conversations.state(name).state == "waiting_for_input"
    assert len(await place.events(TurnStarted)) == 1
    assert (await place.states())[-2:] == ["starting", "waiting_for_input"]


async def test_two_requests_at_once_start_one_agent(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        await session.conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        one, other = await asyncio.gather(*(session.conversations.ensure_agent(name, place.cwd) for _ in range(2)))
        assert one is other
    assert len(await place.events(ConversationAttached)) == 2


async def test_two_prompts_at_once_are_two_turns_one_after_the_other(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turns = await asyncio.gather(
            *(conversations.send_prompt(name, f"number {number}", place.cwd) for number in range(3))
        )
        assert [turn.reason for turn in turns] == ["end_turn"] * 3
    assert await place.said("user") == ["number 0", "number 1", "number 2"]
    assert (await place.states())[2:] == ["running", "waiting_for_input"] * 3
    assert len(await place.events(ConversationAttached)) == 1


async def test_a_prompt_that_nobody_heard_is_sent_once_more_and_the_log_says_so(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert (await conversations.send_prompt(name, "mute", place.cwd)).reason == "end_turn"
    assert await place.said() == ["at last"]
    assert await place.said("user") == ["mute", "mute"]
    assert await place.interruptions() == [
        "the agent died in session/prompt: it was killed by SIGKILL; the agent had answered nothing"
    ]


async def test_a_prompt_is_not_sent_a_third_time(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert (await conversations.send_prompt(name, "never", place.cwd)).reason == "interrupted"
        assert conversations.state(name).state == "waiting_for_input"
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.said("user") == ["never", "never", "hello"]


async def test_a_message_whose_agent_cannot_be_started_stays_in_the_inbox(place: Place) -> None:
    place.play(book(new="refuses"))
    await FileStore(place.home).inbox(place.run_id).put(Message(id="m-1", kind="say", sender="me"))
    async with place.session() as (run, _, conversations):
        await run.consume_inbox()
        name = await conversations.open(AGENT)
        with pytest.raises(AgentUnavailable):
            await conversations.send_prompt(name, FACT, place.cwd, messages=["m-1"])
        assert list(run.state.messages) == ["m-1"]
        place.play(book())
        await conversations.send_prompt(name, FACT, place.cwd, messages=["m-1"])
        assert run.state.messages == {}
    assert await place.said("user") == [FACT]


async def test_a_message_in_a_prompt_that_the_runners_death_cut_off_is_not_lost_and_not_sent_again_as_if_new(
    place: Place,
) -> None:
    place.play(book(load="works"))
    await FileStore(place.home).inbox(place.run_id).put(Message(id="m-1", kind="say", sender="me"))
    with child(say_until_killed, place, ["still"], ["m-1"]) as runner:
        name = runner.hear()
        assert name is not None
        await until(lambda: place.harmed() == 1)
        runner.kill()
    async with place.session() as (run, _, conversations):
        await run.consume_inbox()
        assert run.state.messages == {}, "it is in the log, as the turn's"
        assert await place.interruptions() == ["the session died; whether the agent got the prompt is unknown"]
        turn = await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE)
        assert turn is not None
    assert await place.said("user") == ["still"]
    (told,) = await place.said("system")
    assert told.startswith("Your last turn was interrupted")
    assert told.endswith("The request was:\nstill")


async def test_an_agent_whose_turn_the_machine_cut_off_is_told_that_files_may_be_gone(place: Place) -> None:
    place.play(book(load="works"))
    with child(say_until_killed, place, ["still"], []) as runner:
        name = runner.hear()
        assert name is not None
        await until(lambda: place.harmed() == 1)
        runner.kill()
    async with open_run(FileStore(place.home), place.run_id) as run:
        agent = ConversationAttached(conversation=name, rung="fresh", pid=1, start_time=1, boot_id="the boot before")
        await run.begin_session(SessionStart(), agent)
    async with place.session() as (_, _, conversations):
        assert await place.interruptions() == ["the machine went down; whether the agent got the prompt is unknown"]
        assert await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE) is not None
    (told,) = await place.said("system")
    assert "The machine went down too: files that you wrote in that turn may be missing or cut short." in told


async def test_a_message_of_the_inbox_is_handled_once_though_its_prompt_is_sent_twice(place: Place) -> None:
    place.play(book(load="works"))
    await FileStore(place.home).inbox(place.run_id).put(Message(id="m-1", kind="say", sender="me"))
    async with place.session() as (run, _, conversations):
        await run.consume_inbox()
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "mute", place.cwd, messages=["m-1"])
        assert run.state.messages == {}
    assert [event.message for event in await place.events(InboxHandled)] == ["m-1"]
    assert [event.messages for event in await place.events(TurnStarted)] == [["m-1"], []]


# Interrupted turns


@pytest.mark.parametrize("policy", AfterInterruption)
async def test_a_turn_that_was_cut_off_goes_on_as_the_policy_says(place: Place, policy: AfterInterruption) -> None:
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "die", place.cwd)
        turn = await conversations.continue_turn(name, place.cwd, policy)
        assert await conversations.continue_turn(name, place.cwd, policy) is None, "what ended is not repeated"
    said = await place.said("system")
    if policy is AfterInterruption.ASK:
        assert turn is None
        assert said == []
    else:
        assert turn is not None
        assert turn.reason == "end_turn"
    if policy is AfterInterruption.CONTINUE:
        assert "- `Saw`: it did not return" in said[0]
        assert said[0].endswith("The request was:\ndie")


async def test_going_on_is_cut_off_too_and_the_request_is_still_the_users(place: Place) -> None:
    turns = [{"when": "die|interrupted", "steps": [{"say": "hm"}, {"crash": "kill"}]}]
    place.play({"turns": turns})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "die", place.cwd)
        for _ in range(2):
            turn = await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE)
            assert turn is not None
            assert turn.reason == "interrupted"
    first, second = await place.said("system")
    assert first == second


async def test_nothing_was_cut_off_nothing_goes_on(place: Place) -> None:
    place.play(book())
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert await conversations.continue_turn(name, place.cwd, AfterInterruption.CONTINUE) is None
        await conversations.send_prompt(name, FACT, place.cwd)
        assert await conversations.continue_turn(name, place.cwd, AfterInterruption.RETRY) is None


async def test_whoever_stops_waiting_for_a_turn_leaves_it_interrupted_and_the_agent_gone(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "stop", place.cwd))
        await until(lambda: calls_of(run, name) == ["t-2"])
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert place.processes() == []
        assert conversations.state(name).state == "waiting_for_input"
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.interrupted_calls() == ["t-2"]


@pytest.mark.parametrize("moment", [0, 4, *(pytest.param(moment, marks=pytest.mark.torture) for moment in (2, 6, 8))])
async def test_whoever_stops_waiting_at_any_moment_leaves_a_conversation_that_goes_on(
    place: Place, moment: int
) -> None:
    """Also between the durable beginning of a turn and the sending of its prompt."""
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        for _ in range(2):
            await conversations.ensure_agent(name, place.cwd)
            turn = asyncio.ensure_future(conversations.send_prompt(name, "stop", place.cwd))
            await ticks(moment)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            assert conversations.state(name).turn is None
            moment += 1
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert len(await place.interruptions()) == len(await place.events(TurnStarted)) - 1


# The end


@pytest.mark.parametrize("phase", [ConversationState.COMPLETED, ConversationState.CANCELLED, ConversationState.FAILED])
async def test_a_conversation_that_is_over_takes_no_more_words(place: Place, phase: ConversationState) -> None:
    place.play(book())
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        await conversations.close(name, phase, "enough")
        assert place.processes() == []
        assert conversations.resume_need(name) == (False, f"conversation_{phase}")
        with pytest.raises(Denied, match=f"is {phase}; open a new one"):
            await conversations.send_prompt(name, KNOW, place.cwd)
        with pytest.raises(InvalidTransition):
            await conversations.close(name, ConversationState.CANCELLED)
    assert (await place.states())[-1] == phase


async def test_a_conversation_closed_in_the_middle_of_a_turn_stays_closed(place: Place) -> None:
    """The turn is interrupted, and written before the end; its prompt is not sent to a new agent."""
    place.play({"turns": [{"when": "deaf", "steps": [DEAF]}]})
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "deaf", place.cwd))
        await until(lambda: place.harmed() == 1)  # a cancel before would end the turn
        await conversations.close(name, ConversationState.CANCELLED, "enough")
        assert (await turn).reason == "interrupted"
        assert run.state.conversations[name].turn is None
    assert (await place.states())[-2:] == ["waiting_for_input", "cancelled"]
    assert len(await place.events(TurnStarted)) == 1
    assert len(await place.events(ConversationDetached)) == 1


async def test_a_session_that_ends_in_the_middle_of_a_turn_writes_that_it_was_interrupted(place: Place) -> None:
    place.play(book())
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "stop", place.cwd))
        await until(lambda: calls_of(run, name) == ["t-2"])
    assert (await turn).reason == "interrupted"
    assert (await place.states())[-1] == "waiting_for_input"
    assert await place.interrupted_calls() == ["t-2"]


async def test_a_cancelled_turn_ends_and_the_agent_stays(place: Place) -> None:
    place.play({"turns": [{"when": "long", "steps": [{"tool": {"id": "t-9", "title": "Dig"}}, {"hang": "turn"}]}]})
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "long", place.cwd))
        await until(lambda: calls_of(run, name) == ["t-9"])
        await conversations.cancel(name)
        assert (await turn).reason == "cancelled"
        assert conversations.resume_need(name) == (False, "agent_running")
    assert await place.interrupted_calls() == ["t-9"], "a call in flight never completed"


async def test_a_turn_that_is_cancelled_while_its_agent_starts_is_not_begun(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, FACT, place.cwd))
        await until(lambda: conversations.state(name).state == "starting")
        await conversations.cancel(name)
        assert (await turn).reason == "cancelled"
        assert await place.said() == []
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn", (
            "only that one was meant"
        )
    assert await place.said("user") == [FACT, "hello"]


async def test_an_agent_that_does_not_stop_when_asked_is_ended_and_not_asked_again(place: Place) -> None:
    place.play({"turns": [{"when": "deaf", "steps": [DEAF]}], "otherwise": OTHERWISE})
    async with place.session(deadlines=Deadlines(cancel=0.3)) as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "deaf", place.cwd))
        await until(lambda: place.harmed() == 1)  # a cancel before would end the turn
        await conversations.cancel(name)
        assert (await turn).reason == "interrupted"
        assert place.processes() == []
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert await place.said("user") == ["deaf", "hello"]
    reasons = [event.reason for event in await place.events(ConversationDetached)]
    assert reasons[0] == "the agent did not stop when its turn was cancelled"


async def test_error_that_answers_a_cancelled_turn_is_no_outage(place: Place) -> None:
    """An agent whose request is aborted may report that its provider could not be reached."""
    error = {"error": {"code": -32603, "message": "fetch failed"}}
    digs = {"when": "wait", "steps": [{"tool": {"id": "t-9", "title": "Dig"}}, {"hang": "turn"}], "on_cancel": [error]}
    place.play({"turns": [digs], "otherwise": OTHERWISE})
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "wait", place.cwd))
        await until(lambda: calls_of(run, name) == ["t-9"])
        await conversations.cancel(name, "ann")
        assert (await turn).reason == "cancelled"
        assert not conversations.state(name).limited
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert [event.by for event in await place.events(TurnEnded)] == ["ann", None]
    assert await place.events(OutageMet) == []


async def test_turn_that_a_person_cancelled_is_not_interrupted_though_its_agent_is_killed(place: Place) -> None:
    place.play({"turns": [{"when": "deaf", "steps": [DEAF]}], "otherwise": OTHERWISE})
    async with place.session(deadlines=Deadlines(cancel=0.3)) as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "deaf", place.cwd))
        await until(lambda: place.harmed() == 1)  # a cancel before would end the turn
        await conversations.cancel(name, "ann")
        assert (await turn).reason == "cancelled"
        assert place.processes() == []
        assert conversations.state(name).state == "waiting_for_input"
        assert not was_interrupted(conversations.state(name))
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason == "end_turn"
    assert [event.by for event in await place.events(TurnEnded)] == ["ann", None]
    assert await place.events(TurnInterrupted) == []


async def test_there_is_nothing_to_cancel_between_turns(place: Place) -> None:
    place.play(book())
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        await session.conversations.cancel(name)
        await session.conversations.send_prompt(name, FACT, place.cwd)
        await session.conversations.cancel(name)
        await kill_idle(session, name)
        await session.conversations.cancel(name)
        assert (await session.conversations.send_prompt(name, FACT, place.cwd)).reason == "end_turn"


async def test_a_refused_prompt_ends_its_turn_with_what_the_agent_said(place: Place) -> None:
    place.play({"turns": [{"when": "x", "steps": [{"error": {"code": -32000, "message": "usage limit reached"}}]}]})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = await conversations.send_prompt(name, "x", place.cwd)
        assert turn.reason == "refused"
        assert "usage limit reached" in (turn.detail or "")
        assert conversations.state(name).state == "waiting_for_input"
    assert [event.stop_reason for event in await place.events(TurnEnded)] == ["refused"]


@pytest.mark.parametrize("result", [None, {"stopReason": "weird"}, {}], ids=["null", "weird", "empty"])
async def test_an_answer_that_the_protocol_does_not_know_ends_the_turn(place: Place, result: object) -> None:
    third = {"jsonrpc": "2.0", "id": 2, "result": result}  # initialize, session/new, session/prompt
    place.play({"turns": [{"when": "odd", "steps": [{"send": third}, {"hang": "turn"}]}], "otherwise": OTHERWISE})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = await conversations.send_prompt(name, "odd", place.cwd)
        assert turn.reason == "refused"
        assert "its answer does not follow the protocol" in (turn.detail or "")
        assert conversations.state(name).state == "waiting_for_input"


async def test_before_its_first_agent_a_conversation_needs_no_resume(place: Place) -> None:
    place.play(book())
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert conversations.resume_need(name) == (False, "not_started")
        with pytest.raises(BadInput, match="there is no conversation 'nobody'"):
            conversations.resume_need("nobody")


@pytest.mark.parametrize("agent", ["", "nobody", " "])
async def test_an_agent_that_nobody_knows_opens_no_conversation(place: Place, agent: str) -> None:
    async with place.session() as (run, _, conversations):
        with pytest.raises(BadInput, match="there is no agent"):
            await conversations.open(agent)
        assert run.state.conversations == {}


CUT_OFF_ON_A_BAD_DISK = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from holdfast.leaf.errors import StorageFailed
from tests.support.scripted_agents import book
from tests.support.conversations import AGENT, Place

async def run_conversation():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # calls that fail are counted by thread
    place = await Place.make(sys.argv[1])
    place.play(book(load="works"))
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        try:
            await conversations.send_prompt(name, sys.argv[2], place.cwd)
        except StorageFailed as error:
            assert "Input/output error" in str(error), error
        else:
            sys.exit("the session goes on")
    assert await place.interruptions() == []
    async with place.session() as (run, _, conversations):
        assert run.state.conversations[name].turn is None
    (why,) = await place.interruptions()
    assert why.startswith("the session died"), why

asyncio.run(run_conversation())
"""


@pytest.mark.parametrize("said", ["die", "kelp"])
def test_a_turn_whose_files_are_not_on_the_disk_is_not_called_cut_off_before_they_are(
    tmp_path: Path, said: str
) -> None:
    calls = run_with_faults(
        CUT_OFF_ON_A_BAD_DISK, str(tmp_path), said, trace="syncfs", faults="syncfs:error=EIO:when=1"
    )
    assert ["INJECTED" in call for call in calls if "syncfs" in call] == [True, False]
