"""An agent in its own terminal UI, in a window of the run's own tmux; and what becomes of it when that is lost."""

import asyncio
import os
import signal

import pytest

from holdfast.core.conversation.states import RecoveryStrategy
from holdfast.engine.agents.conversations import AgentUnavailable
from holdfast.leaf.process.env_markers import CONVERSATION_MARK, RUN_MARK, mark_of
from tests.support.conversations import AGENT
from tests.support.processes import child
from tests.support.wait import until
from tests.tmux.rooms import Room, command_line, say_until_killed

LOST = "its tmux pane was lost"


async def test_a_prompt_is_a_file_and_a_report_is_the_answer(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT, role="agent", task="T-1")
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one, in many\nlines", room.place.cwd))
        await room.written("one")
        (pane,) = room.panes().values()
        assert pane.window == "agent T-1"
        with open(os.path.join(room.folder, "prompts", f"{name}-1.md"), encoding="utf-8") as file:
            told = file.read()
        assert told.startswith("one, in many\nlines\n")
        assert "submit_done, report_blocker" in told
        assert mark_of(pane.process.pid, RUN_MARK) == room.place.run_id
        assert mark_of(pane.process.pid, CONVERSATION_MARK) == f"{room.place.run_id}/{name}"
        assert command_line(pane)[-3:-1] == ["--session", conversations.state(name).token]
        await room.reported("somebody else")
        await room.reported(name)
        assert (await turn).reason == "end_turn"
    assert (await room.place.said()) == ['submit_done {"summary":"made it","preferences":[]}']
    await until(lambda: room.tmux("list-sessions") == "")


async def test_a_lost_pane_is_an_event_and_replaced_when_it_is_needed_and_others_are_undisturbed(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        one = await conversations.open(AGENT, task="A")
        two = await conversations.open(AGENT, task="B")
        first = asyncio.ensure_future(conversations.send_prompt(one, "one", room.place.cwd))
        second = asyncio.ensure_future(conversations.send_prompt(two, "two", room.place.cwd))
        await room.written("one")
        await room.written("two")
        before = room.panes()
        room.tmux("kill-pane", "-t", before["agent A"].id)
        cut = await first
        assert (cut.reason, LOST in (cut.detail or "")) == ("interrupted", True)
        assert list(room.panes()) == ["agent B"]  # nobody needs the other yet
        again = asyncio.ensure_future(conversations.send_prompt(one, "What do you know?", room.place.cwd))
        await room.written("told")
        after = room.panes()
        assert after["agent B"] == before["agent B"]
        assert command_line(after["agent A"])[-3:-1] == ["--resume", conversations.state(one).token]
        assert "one" in room.screen(after["agent A"])  # its own session, not ours told again
        await room.reported(one)
        await room.reported(two)
        assert [(await turn).reason for turn in (again, second)] == ["end_turn", "end_turn"]
    assert await room.place.rungs() == [RecoveryStrategy.FRESH, RecoveryStrategy.FRESH, RecoveryStrategy.RESUME]
    assert any(LOST in reason for reason in await room.reasons())


async def test_a_session_that_cannot_be_shown_now_is_not_begun_anew(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", room.place.cwd))
        assert (await room.ended(turn, name, "one")).reason == "end_turn"
        token = conversations.state(name).token
        room.tmux("kill-server")
        await until(lambda: conversations.resume_need(name)[0])
        note = os.path.join(room.folder, "agents", f"{name}.mcp.json")
        os.unlink(note)
        os.mkdir(note)  # what it is to be told cannot be written
        with pytest.raises(AgentUnavailable):
            await conversations.send_prompt(name, "What do you know?", room.place.cwd)
        os.rmdir(note)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "What do you know?", room.place.cwd))
        assert (await room.ended(turn, name, "told")).reason == "end_turn"
        assert conversations.state(name).token == token
    assert await room.place.rungs() == [RecoveryStrategy.FRESH, RecoveryStrategy.RESUME]


@pytest.mark.torture
async def test_after_kill_server_each_role_comes_back_when_it_is_needed(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", room.place.cwd))
        assert (await room.ended(turn, name, "one")).reason == "end_turn"
        room.tmux("kill-server")
        await until(lambda: conversations.resume_need(name)[0])
        turn = asyncio.ensure_future(conversations.send_prompt(name, "What do you know?", room.place.cwd))
        assert (await room.ended(turn, name, "told")).reason == "end_turn"
    assert await room.place.rungs() == [RecoveryStrategy.FRESH, RecoveryStrategy.RESUME]
    assert (await room.reasons())[0] == f"the agent has died: {LOST}"


async def test_when_all_of_ours_are_killed_the_pane_is_ended_before_anybody_goes_on(room: Room) -> None:
    with child(say_until_killed, room, "one") as runner:
        name = runner.hear()
        assert name is not None
        await room.written("one")
        (pane,) = room.panes().values()
        (go_between,) = {process.pid for process in room.place.processes()} - {pane.process.pid}
        os.kill(runner.pid, signal.SIGSTOP)
        os.kill(go_between, signal.SIGKILL)
        runner.kill()
    assert pane.process.is_alive()  # tmux is its parent, and lives
    async with room.session() as (_, _, conversations):
        assert not pane.process.is_alive()
        turn = asyncio.ensure_future(conversations.send_prompt(name, "What do you know?", room.place.cwd))
        assert (await room.ended(turn, name, "told")).reason == "end_turn"
    assert await room.place.rungs() == [RecoveryStrategy.FRESH, RecoveryStrategy.RESUME]


@pytest.mark.torture
async def test_one_that_its_program_does_not_know_any_more_is_told_its_history(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", room.place.cwd))
        assert (await room.ended(turn, name, "one")).reason == "end_turn"
    sessions = os.path.join(room.place.home, "memory", "sessions")
    for file in os.listdir(sessions):
        os.unlink(os.path.join(sessions, file))
    async with room.session() as (_, _, conversations):
        turn = asyncio.ensure_future(conversations.send_prompt(name, "go on", room.place.cwd))
        assert (await room.ended(turn, name, "other")).reason == "end_turn"
    assert await room.place.rungs() == [RecoveryStrategy.FRESH, RecoveryStrategy.HISTORY]
    ((rung, why),) = await room.place.failed_rungs()
    assert rung == RecoveryStrategy.RESUME
    assert "there is no session" in why


@pytest.mark.torture
async def test_a_cancelled_turn_gets_the_key_that_interrupts(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", room.place.cwd))
        await room.written("one")
        (pane,) = room.panes().values()
        await conversations.cancel(name)
        assert (await turn).reason == "cancelled"
        await until(lambda: "interrupted" in room.screen(pane))
        turn = asyncio.ensure_future(conversations.send_prompt(name, "two", room.place.cwd))
        assert (await room.ended(turn, name, "two")).reason == "end_turn"
        assert room.panes() == {pane.window: pane}


@pytest.mark.torture
async def test_who_types_scrolls_and_sends_clients_away_breaks_nothing(room: Room) -> None:
    async with room.session() as (_, _, conversations):
        name = await conversations.open(AGENT)
        turn = asyncio.ensure_future(conversations.send_prompt(name, "one", room.place.cwd))
        await room.written("one")
        (pane,) = room.panes().values()
        await room.reported(name)
        await turn
        room.tmux("send-keys", "-t", pane.id, "C-c")
        await until(lambda: "interrupted" in room.screen(pane))
        room.tmux("send-keys", "-t", pane.id, "half a line of mine ")
        await until(lambda: "of mine" in room.screen(pane))
        room.tmux("copy-mode", "-t", pane.id)
        room.tmux("detach-client", "-s", "holdfast")
        turn = asyncio.ensure_future(conversations.send_prompt(name, "two", room.place.cwd))
        assert (await room.ended(turn, name, "two")).reason == "end_turn"
