"""The way back into a conversation, with real agents that die and lie: it always ends where one can speak again."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationTokenStored,
    ToolCalled,
)
from holdfast.engine.agents.conversations import AgentUnavailable, Conversations
from holdfast.engine.workspace.effects import fence
from holdfast.leaf.errors import BadInput
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK
from holdfast.leaf.process.identity import identify
from tests.support.conversations import AGENT, Place, say_until_killed
from tests.support.processes import child
from tests.support.scripted_agents import FACT, KNOW, book, kill_idle
from tests.support.wait import until


async def test_the_runner_dies_again_and_again_and_the_history_is_told_to_each_new_session_once(place: Place) -> None:
    place.play(book(load="absent"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
    for _ in range(2):  # attached, and ended before a word was said: its session knows nothing yet
        async with place.session() as (_, _, conversations):
            await conversations.ensure_agent(name, place.cwd)
    async with place.session() as (_, _, conversations):
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", *["history injection"] * 3]
    assert (await place.said())[-1].count("RESUME CONTEXT FOR") == 1
    assert FACT in (await place.said())[-1]


async def test_a_blank_session_is_not_loaded_though_the_agent_could(place: Place) -> None:
    """It was to be told the history with a first message that never came."""
    place.play(book(load="gone"))
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
    async with place.session() as (_, _, conversations):
        await conversations.ensure_agent(name, place.cwd)
    place.play(book(load="works"))
    async with place.session() as (_, _, conversations):
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert (await place.rungs())[-1] == "history injection"
    assert FACT in (await place.said())[-1]


async def test_a_session_that_was_never_saved_is_replaced(place: Place) -> None:
    """Killed in its first turn, such an agent knows nothing of it, though it offers to load."""
    place.play({**book(load="works", resume="works"), "sessions": {"save": "turn", "interrupted": "next"}})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "die", place.cwd)
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert [rung for rung, _ in await place.failed_rungs()] == ["session/resume", "session/load"]
    assert "[TOOL CALL: Saw]\n[TOOL RESULT: Saw] interrupted" in (await place.said())[-1]


@pytest.mark.parametrize(("load", "spent"), [("works", 0.75), ("absent", 1.25)])
async def test_what_a_session_spent_is_counted_once_though_it_tells_the_sum_again(
    place: Place, load: str, spent: float
) -> None:
    """A new session has a sum of its own."""
    costs = [{"usage": {"used": 1, "size": 9, "cost": cost}} for cost in (0.5, 0.75)]
    turns = [{"when": word, "steps": [cost]} for word, cost in zip(("second", "first"), reversed(costs), strict=True)]
    place.play({**book(load=load), "turns": turns})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "first", place.cwd)
    async with place.session() as (run, _, conversations):
        await conversations.send_prompt(name, "second", place.cwd)
        assert run.state.budget.dollars == spent


@pytest.mark.parametrize("rung", ["session/resume", "session/load"])
async def test_what_an_agent_replays_is_not_written_again(place: Place, rung: str) -> None:
    replays = {"how": "works", "replay": True, "tool_calls": "new_ids"}
    place.play(book(**({"resume": replays} if rung == "session/resume" else {"resume": "absent", "load": replays})))
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        await session.conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        await session.conversations.ensure_agent(name, place.cwd)
    assert await place.rungs() == ["fresh", rung]
    assert await place.said() == ["noted"]
    assert len(await place.events(ToolCalled)) == 1


async def test_when_no_rung_holds_the_conversation_waits_and_can_be_tried_again(place: Place) -> None:
    place.play(book(load="works"))
    async with place.session() as session:
        conversations = session.conversations
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        place.play(book(load="gone", new="refuses"))
        with pytest.raises(AgentUnavailable, match="refused session/new"):
            await conversations.send_prompt(name, KNOW, place.cwd)
        assert conversations.state(name).state == "waiting_for_input"
        assert conversations.state(name).token is None, "it was rejected: nobody asks for that session again"
        place.play(book(load="works"))
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert [rung for rung, _ in await place.failed_rungs()] == ["session/load", *["history injection"] * 2]
    assert [event.token is None for event in await place.events(ConversationTokenStored)] == [False, True, False]
    assert FACT in (await place.said())[-1]


@pytest.mark.parametrize("start", ["exit", "kill"])
async def test_an_agent_that_dies_when_it_is_started_leaves_the_conversation_waiting(place: Place, start: str) -> None:
    place.play({**book(), "start": [{"crash": start}]})
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        with pytest.raises(AgentUnavailable, match="player failed to start"):
            await conversations.send_prompt(name, FACT, place.cwd)
        assert conversations.state(name).state == "waiting_for_input"
        place.play(book())
        assert (await conversations.send_prompt(name, FACT, place.cwd)).reason == "end_turn"


async def test_a_folder_that_is_gone_is_one_clear_line_and_the_conversation_waits(place: Place) -> None:
    place.play(book())
    async with place.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        with pytest.raises(BadInput, match="/nowhere was not found"):
            await conversations.send_prompt(name, FACT, "/nowhere")
        assert conversations.state(name).state == "waiting_for_input"


async def told_killed_and_asked(place: Place, proven: dict[str, bool] | None = None) -> None:
    """An agent that was told something, killed, and is then asked what it knows."""
    async with place.session(proven=proven) as session:
        name = await session.conversations.open(AGENT)
        await session.conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        await session.conversations.send_prompt(name, KNOW, place.cwd)


@pytest.mark.parametrize("lists", ["absent", {"how": "refuses", "advertised": True}])
@pytest.mark.parametrize("proven", [True, False])
async def test_an_agent_that_does_not_list_its_sessions_is_trusted_when_a_probe_proved_it(
    place: Place, lists: Any, *, proven: bool
) -> None:
    place.play(book(resume="works", list=lists))
    await told_killed_and_asked(place, {"resume": True} if proven else {})
    assert await place.rungs() == ["fresh", "session/resume" if proven else "history injection"]
    assert [rung for rung, _ in await place.failed_rungs()] == ([] if proven else ["session/resume"])
    assert FACT in (await place.said())[-1]


@pytest.mark.parametrize("way", ["resume", "load"])
async def test_an_agent_that_starts_a_new_session_is_found_out_and_told_the_history(place: Place, way: str) -> None:
    place.play(book(**{way: "starts_new"}))
    await told_killed_and_asked(place)
    assert await place.rungs() == ["fresh", "history injection"]
    assert [rung for rung, _ in await place.failed_rungs()] == [f"session/{way}"]
    assert FACT in (await place.said())[-1]


async def test_a_session_that_answers_under_another_id_is_not_the_one_asked_for(place: Place) -> None:
    """What it replays is of some session, but not of this one."""
    place.play(book(load={"how": "works", "replay_as": "another"}))
    await told_killed_and_asked(place)
    assert await place.rungs() == ["fresh", "history injection"]
    ((rung, reason),) = await place.failed_rungs()
    assert (rung, "opened another session" in reason) == ("session/load", True)


async def test_commands_and_modes_that_a_new_session_announces_are_no_replay(place: Place) -> None:
    announces = {"how": "starts_new", "announces": True}
    place.play(book(load=announces))
    await told_killed_and_asked(place)
    assert await place.rungs() == ["fresh", "history injection"]
    assert "without replaying the conversation" in (await place.failed_rungs())[0][1]


async def test_without_a_token_the_resume_is_a_fresh_start(place: Place) -> None:
    place.play(book())
    async with place.session() as (run, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        await run.append(ConversationTokenStored(conversation=name, token=None))
    async with place.session() as (_, _, conversations):
        assert conversations.resume_need(name) == (True, "agent_not_running_fresh_start")
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert await place.rungs() == ["fresh", "history injection"]


@pytest.mark.parametrize("no", [{"error": {"code": -32000, "message": "usage limit"}}, {"end": "refusal"}])
async def test_a_history_that_was_refused_is_told_with_the_next_message(place: Place, no: dict[str, Any]) -> None:
    """An agent that refuses a prompt goes on as if it had not been said."""
    refusing = {"resume_context": True, "once": True, "steps": [no]}
    made = book()
    place.play({**made, "turns": [refusing, *made["turns"]]})
    async with place.session() as session:
        conversations = session.conversations
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        assert (await conversations.send_prompt(name, "hello", place.cwd)).reason in ("refused", "refusal")
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert FACT in (await place.said())[-1]


async def test_a_history_whose_message_was_cancelled_before_it_was_sent_is_told_with_the_next(place: Place) -> None:
    place.play(book())
    async with place.session() as session:
        conversations = session.conversations
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, FACT, place.cwd)
        await kill_idle(session, name)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "hello", place.cwd))
        await until(lambda: conversations.state(name).state == "starting")
        await conversations.cancel(name)
        assert (await turn).reason == "cancelled"
        assert (await conversations.send_prompt(name, KNOW, place.cwd)).reason == "end_turn"
    assert FACT in (await place.said())[-1]


async def test_an_agent_that_sheds_its_environment_does_not_outlive_its_runner(place: Place) -> None:
    """It holds the run's tether all the same."""
    memory = f"HOLDFAST_PLAYBOOK_STATE={place.home}/memory"
    place = place._replace(wrapper=("env", "-i", memory))
    place.play(book(load="works", ignores=["eof"]))
    with child(say_until_killed, place, [FACT]) as runner:
        name = runner.hear()
        assert name is not None
        assert runner.hear_some(2) == ["noted", "end_turn"]
        (attached,) = await place.events(ConversationAttached)
        assert attached.pid is not None
        runner.kill()
    assert place.processes() == [], "nobody has the mark"
    assert identify(attached.pid) is not None
    async with place.session() as (_, _, conversations):
        assert identify(attached.pid) is None
        await conversations.send_prompt(name, KNOW, place.cwd)
    assert FACT in (await place.said())[-1]


async def test_the_tools_of_an_agent_that_passes_on_no_environment_die_with_it(place: Place) -> None:
    """They carry its mark, though they have nothing of ours but what they were given; and go on when it is dead."""
    place = place._replace(wrapper=("env", "-u", RUN_MARK, "-u", CONVERSATION_MARK))
    path = Path(place.cwd, "pid")
    tools = (sys.executable, "-m", "holdfast", "mcp", "--run", place.run_id, "--home", place.home)
    given = ("sh", "-c", f'echo $$ > {path}; "$@"; exec sleep 600', "sh", *tools)
    place.play({"turns": [[{"mcp": {"tool": "submit_done", "arguments": {"summary": "done"}}}]]})
    context = place.context()._replace(tools=lambda *_: given)
    async with place.session() as session:
        async with Conversations(session.run, context, session.broker) as conversations:
            name = await conversations.open(AGENT)
            await conversations.send_prompt(name, FACT, place.cwd)
            server = identify(int(path.read_text()))
            await kill_idle(session._replace(conversations=conversations), name)
        try:
            assert server is not None
            assert not server.is_alive()
        finally:
            await asyncio.to_thread(fence, place.run_id, place.tether)


async def test_what_works_for_the_run_beside_them_is_spared_when_conversations_begin(place: Place) -> None:
    place.play(book())
    async with place.session() as (run, broker, _):
        environment = {**os.environ, RUN_MARK: place.run_id}
        git = await asyncio.create_subprocess_exec("sleep", "600", env=environment, start_new_session=True)
        try:
            async with Conversations(run, place.context(), broker) as conversations:
                name = await conversations.open(AGENT)
                await conversations.send_prompt(name, FACT, place.cwd)
            assert git.returncode is None
        finally:
            git.kill()
            await git.wait()
