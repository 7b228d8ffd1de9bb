"""What a person does with a chat from outside, with runners and agents as processes of their own."""

import asyncio

import pytest

from holdfast.core.events.chat import MessageDeleted, MessageEdited, OptionChosen, RuleAdded
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationOpened,
    ConversationStateChanged,
    ModeChanged,
    PermissionAnswered,
    TurnEnded,
    TurnStarted,
)
from holdfast.core.messages.schema import UserAnswer, UserMessage
from holdfast.core.summary.needs import needs_to_answer
from holdfast.core.task_state import TaskStatus
from holdfast.engine.commands.answer import send_answer
from holdfast.engine.commands.chat import (
    accept,
    add_conversation,
    cancel_turn,
    delete_queued,
    edit_queued,
    ensure_runner,
    resume_conversation,
    send_chat_message,
    set_option,
)
from holdfast.engine.commands.send import send
from holdfast.engine.commands.stop import stop_run
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.queued import list_queued
from holdfast.leaf.errors import BadInput
from tests.support.chats import Chat, Chats
from tests.support.logs import whole
from tests.support.sessions import HANG

ASK = {
    "permission": {
        "title": "Write asked.txt",
        "kind": "edit",
        "locations": ["asked.txt"],
        "options": ["allow_once", "allow_always", "reject_once"],
    }
}


async def test_two_requests_to_resume_start_one_agent(chats: Chats) -> None:
    """The agent stays idle: it gets no prompt, and its conversation waits for its user."""
    chat = await chats.start(idle=0)
    await chat.rest()
    (before,) = await chat.status()
    assert (before.needs_resume, before.reason, before.is_resumable) == (True, "agent_not_running", True)
    await send(chat.home, chat.run_id, UserMessage("wake up"))  # keeps the runner until both requests are there
    asked = (resume_conversation(chat.home, chat.run_id, before.id) for _ in range(2))
    await asyncio.gather(*asked)
    await chat.rest()
    assert len(await chat.events(TurnStarted)) == 2
    (after,) = await chat.status()
    assert (after.state, after.is_agent_running) == ("waiting_for_input", False)


async def test_resumed_agent_is_idle(chats: Chats) -> None:
    chat = await chats.start(idle=600)
    await chat.until(_is_waiting)
    (before,) = await chat.status()
    assert (before.needs_resume, before.reason, before.is_agent_running) == (False, "agent_running", True)
    await stop_run(chat.home, chat.run_id)
    await asyncio.gather(*(resume_conversation(chat.home, chat.run_id, before.id) for _ in range(2)))
    (after,) = await chat.status()
    assert (after.state, after.is_agent_running, after.turns) == ("waiting_for_input", True, 1)
    assert len(await chat.events(ConversationAttached)) == 2
    changes = [event.state for event in await chat.events(ConversationStateChanged)]
    assert changes[-3:] == ["waiting_for_input", "starting", "waiting_for_input"]
    assert (await view_run(chat.home, chat.run_id)).state.tasks["T-1"].status == TaskStatus.REVIEW


async def test_ended_conversation_is_not_resumed_and_a_message_starts_another(chats: Chats) -> None:
    chat = await chats.start(idle=0)
    await chat.rest()
    await accept(chat.home, chat.run_id, finish=True)
    await chat.rest()
    (ended,) = await chat.status()
    assert (ended.state, ended.needs_resume, ended.reason) == ("completed", False, "conversation_completed")
    assert not ended.is_resumable
    for refused in (
        resume_conversation(chat.home, chat.run_id, ended.id),
        send_chat_message(chat.home, chat.run_id, "go on", conversation=ended.id),
    ):
        with pytest.raises(BadInput, match="is completed; open another one"):
            await refused
    assert len(await chat.events(ConversationAttached)) == 1
    await send_chat_message(chat.home, chat.run_id, "go on")
    await chat.rest()
    assert [one.state for one in await chat.status()] == ["completed", "waiting_for_input"]
    assert (await view_run(chat.home, chat.run_id)).state.tasks["T-1"].status == TaskStatus.REVIEW


async def test_turn_of_a_dead_agent_waits_for_its_user(chats: Chats) -> None:
    """Its conversation waits, its task is in review, and the agent is not started."""
    chat = await chats.start({"steps": [{"say": "dying"}, {"crash": {"how": "kill"}}]}, idle=0)
    await chat.rest()
    changes = [event.state for event in await chat.events(ConversationStateChanged)]
    assert changes == ["starting", "waiting_for_input", "running", "waiting_for_input"]
    (left,) = await chat.status()
    assert (left.last_stop, left.needs_resume, left.reason) == ("interrupted", True, "agent_not_running")
    assert (await view_run(chat.home, chat.run_id)).state.tasks["T-1"].status == TaskStatus.REVIEW
    assert len(await chat.events(ConversationAttached)) == 1


async def _is_waiting(chat: Chat) -> bool:
    return bool(await chat.events(TurnEnded)) and (await chat.status())[0].state == "waiting_for_input"


async def test_queued_messages_can_be_changed_until_they_are_delivered(chats: Chats) -> None:
    chat = await chats.start()
    await chat.rest()
    first, second = [await send(chat.home, chat.run_id, UserMessage(text)) for text in ("one", "two")]
    assert [(one.id, one.text) for one in await list_queued(chat.home, chat.run_id)] == [
        (first, "one"),
        (second, "two"),
    ]
    await edit_queued(chat.home, chat.run_id, first, "uno")
    await delete_queued(chat.home, chat.run_id, second)
    assert [one.text for one in await list_queued(chat.home, chat.run_id)] == ["uno"]
    with pytest.raises(BadInput, match="there is no queued message"):
        await edit_queued(chat.home, chat.run_id, second, "dos")
    await ensure_runner(chat.home, chat.run_id)
    await chat.rest()
    assert [turn.messages for turn in await chat.events(TurnStarted)] == [[], [first]]
    assert len(await chat.events(MessageEdited)) == len(await chat.events(MessageDeleted)) == 1
    assert await list_queued(chat.home, chat.run_id) == []
    assert b'"text":"uno","turn"' in await whole(chat.home.store, chat.run_id)


async def test_cancelled_turn_is_not_continued(chats: Chats) -> None:
    chat = await chats.start({"when": "begin", "steps": [HANG]}, idle=600)
    await chat.until(_is_running)
    (conversation,) = await chat.status()
    await cancel_turn(chat.home, chat.run_id, conversation.id)
    await chat.until(_is_waiting)
    (ended,) = await chat.events(TurnEnded)
    assert ended.stop_reason == "cancelled"
    assert ended.by is not None
    await send_chat_message(chat.home, chat.run_id, "something else")
    await chat.until(_has_turns, 2)
    assert b"was interrupted" not in await whole(chat.home.store, chat.run_id)


async def _is_running(chat: Chat) -> bool:
    return any(one.state == "running" for one in await chat.status())


async def _has_turns(chat: Chat, count: int) -> bool:
    return len(await chat.events(TurnEnded)) == count


async def test_chosen_mode_is_set_again_after_a_restart(chats: Chats) -> None:
    modes = {"current": "code", "available": ["code", "plan"]}
    chat = await chats.start(agent={"modes": modes})
    await chat.rest()
    (conversation,) = await chat.status()
    await set_option(chat.home, chat.run_id, conversation.id, "mode", "plan")
    await send_chat_message(chat.home, chat.run_id, "what now?")
    await chat.rest()
    (chosen,) = await chat.events(OptionChosen)
    assert (chosen.option, chosen.value) == ("mode", "plan")
    assert (await chat.status())[0].options == {"mode": "plan"}
    assert [event.mode for event in await chat.events(ModeChanged)][-1:] == ["plan"]


async def test_second_opinion_in_the_same_worktree_and_in_its_own(chats: Chats) -> None:
    chat = await chats.start({"when": "own", "steps": [{"write": {"path": "own.txt", "text": "own\n"}}]})
    await chat.rest()
    agent = (await chat.status())[0].agent or ""
    with pytest.raises(BadInput, match="no-such-agent"):
        await add_conversation(chat.home, chat.run_id, "no-such-agent", "what do you think?")
    peer = await add_conversation(chat.home, chat.run_id, agent, "what do you think?")
    await chat.rest()
    own = await add_conversation(chat.home, chat.run_id, agent, "try it in your own way", own_worktree=True)
    await chat.rest()
    assert [(one.id == found, one.task) for one, found in zip((await chat.status())[1:], (peer, own), strict=True)] == [
        (True, "T-1"),
        (True, "T-2"),
    ]
    assert [event.role for event in await chat.events(ConversationOpened)] == ["worker", "peer", "worker"]
    assert len(await chat.events(TurnEnded)) == 3
    await accept(chat.home, chat.run_id, conversation=own)
    await chat.rest()
    assert chats.project.show(f"holdfast/{chat.run_id}/main:own.txt") == "own"


async def test_always_allowed_call_is_asked_once(chats: Chats) -> None:
    """The agent gets the permission for a single call, and asks again; the rule answers."""
    chat = await chats.start({"when": "again|begin", "steps": [ASK]}, idle=600)
    await chat.until(_asks)
    state = (await view_run(chat.home, chat.run_id)).state
    (need,) = needs_to_answer(state)
    await send_answer(chat.home, chat.run_id, state, need, UserAnswer(need.key or "", allow=True, always=True))
    await chat.until(_is_waiting)
    await send_chat_message(chat.home, chat.run_id, "again")
    await chat.until(_has_turns, 2)
    (rule,) = await chat.events(RuleAdded)
    assert rule.paths == ["asked.txt"]
    first, second = await chat.events(PermissionAnswered)
    assert first.option == second.option
    assert second.by == f"rule {rule.rule} of this run"


async def _asks(chat: Chat) -> bool:
    return bool((await view_run(chat.home, chat.run_id)).state.permissions)
