"""Chats, from outside: send a message, accept the work, and whatever else a person does between turns.

Nothing is started before it is needed. A message is durable first; then a runner is started unless one has read it. No
message falls between a runner that ends and the next: the sender waits until its message is in the log or the run is
free, and only then starts a runner.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.agents.registry import find_agent
from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected
from holdfast.core.log.codec import DECODE_ERRORS, Line, parse
from holdfast.core.messages.schema import (
    EDITABLE_KINDS,
    AcceptRequest,
    AddConversation,
    CancelTurn,
    DeleteMessage,
    EditMessage,
    ResumeConversation,
    RevokeRule,
    SetOption,
    UserMessage,
    message_text,
    try_decode_body,
)
from holdfast.core.state import RunState
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.commands.send import send
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.leaf.errors import BadInput, HoldfastError, RunOwned
from holdfast.leaf.ids import new_sid
from holdfast.store.base import Position, Store

_MAX_ATTEMPTS = 3  # to start a runner that is killed before it begins, or that another sender was quicker to start

SentBody = (
    UserMessage
    | AcceptRequest
    | CancelTurn
    | SetOption
    | AddConversation
    | ResumeConversation
    | EditMessage
    | DeleteMessage
    | RevokeRule
)


class QueuedMessage(NamedTuple):
    """A message of a person that no prompt has delivered yet. It can be changed or taken back."""

    id: str
    kind: str
    text: str
    sender: str | None = None
    task: str | None = None
    conversation: str | None = None


# A chat


async def send_chat_message(
    home: Home, run_id: str, text: str, *, task: str | None = None, conversation: str | None = None
) -> str:
    """Send a message, and start the run if nobody works on it. Returns the message's id once a runner has read it."""
    await _check_conversation(home, run_id, conversation)
    return await _send_and_wait(home, run_id, UserMessage(text, task, conversation))


async def accept(
    home: Home, run_id: str, *, task: str | None = None, conversation: str | None = None, finish: bool = False
) -> str:
    """Accept the work so far: it is checked, committed and merged into the run's branch."""
    await _check_conversation(home, run_id, conversation)
    return await _send_and_wait(home, run_id, AcceptRequest(task, conversation, finish))


async def add_conversation(
    home: Home, run_id: str, agent: str, text: str, *, task: str | None = None, own_worktree: bool = False
) -> str:
    """Open another conversation with its first message. Returns the conversation's id."""
    state = await _check_conversation(home, run_id, None)
    find_agent(agent, run_config_for(home, state).agents)  # else the runner would drop the message
    conversation_id = new_sid()
    await _send_and_wait(home, run_id, AddConversation(conversation_id, agent, text, task, own_worktree))
    return conversation_id


async def resume_conversation(home: Home, run_id: str, conversation_id: str) -> None:
    """Start the agent of a conversation and leave it idle. Returns when it is ready, or failed to start.

    Two requests at once start one agent: the second finds it running.
    """
    await _check_conversation(home, run_id, conversation_id)
    await _send_and_wait(home, run_id, ResumeConversation(conversation_id), until_handled=True)


async def cancel_turn(home: Home, run_id: str, conversation_id: str, turn: str | None = None) -> str:
    """Cancel the turn in progress. Without a runner there is none."""
    await _check_conversation(home, run_id, conversation_id)
    return await send(home, run_id, CancelTurn(conversation_id, turn))


async def set_option(home: Home, run_id: str, conversation_id: str, option: str, value: str | None) -> str:
    """Choose the `mode`, the `model` or another option of an agent. It applies now, or when the agent is started."""
    await _check_conversation(home, run_id, conversation_id)
    return await send(home, run_id, SetOption(conversation_id, option, value))


async def revoke_rule(home: Home, run_id: str, rule: str) -> str:
    """Ask again for what was always allowed in this run."""
    return await send(home, run_id, RevokeRule(rule))


# Queued messages


async def list_queued(home: Home, run_id: str) -> list[QueuedMessage]:
    """The messages that no prompt has delivered yet, with every change that is on its way to them."""
    state = (await view_run(home, run_id)).state
    found = {
        key: QueuedMessage(
            key,
            open_message.kind,
            message_text(open_message.body),
            open_message.sender,
            open_message.task,
            open_message.conversation,
        )
        for key, open_message in state.messages.items()
        if open_message.kind in EDITABLE_KINDS
    }
    with suppress(FileNotFoundError):
        async for _, message, _ in home.store.inbox(run_id).read(state.inbox_cursor):
            if message is None:
                continue
            match try_decode_body(message.kind, message.body):
                case UserMessage() | AddConversation() as body:
                    own = QueuedMessage(
                        message.id, message.kind, body.text, message.sender, body.task, body.conversation
                    )
                    found[message.id] = own
                case EditMessage() as edit if edit.message in found:
                    found[edit.message] = found[edit.message]._replace(text=edit.text)
                case DeleteMessage() as delete:
                    found.pop(delete.message, None)
    return [*found.values()]


async def edit_queued(home: Home, run_id: str, message_id: str, text: str) -> str:
    """Change a queued message. If it is delivered before the change arrives, the log says so."""
    await _check_queued(home, run_id, message_id)
    return await send(home, run_id, EditMessage(message_id, text))


async def delete_queued(home: Home, run_id: str, message_id: str) -> str:
    """Take back a queued message. If it is delivered before that, the log says so."""
    await _check_queued(home, run_id, message_id)
    return await send(home, run_id, DeleteMessage(message_id))


async def _check_queued(home: Home, run_id: str, message_id: str) -> None:
    if message_id not in {message.id for message in await list_queued(home, run_id)}:
        raise BadInput(f"there is no queued message {message_id!r}; it was delivered, or never sent")


# The runner


async def ensure_runner(home: Home, run_id: str) -> None:
    """Start a runner unless the run has one."""
    for attempt in range(_MAX_ATTEMPTS):
        if home.is_owned(run_id):
            return
        try:
            await start_detached(home, run_id)
        except HoldfastError as error:
            was_killed = error.exit_code < 0 and attempt + 1 < _MAX_ATTEMPTS
            if not was_killed and error.exit_code != RunOwned.exit_code:
                raise
        else:
            return


async def _send_and_wait(home: Home, run_id: str, body: SentBody, *, until_handled: bool = False) -> str:
    """Send a message, and see to it that a runner reads it."""
    before = await end_of_log(home, run_id)
    message_id = await send(home, run_id, body)
    read = asyncio.ensure_future(_wait_until_read(home.store, run_id, before, message_id, handled=until_handled))
    try:
        while not read.done():
            await ensure_runner(home, run_id)
            free = asyncio.ensure_future(wait_until_free(home, run_id))
            await asyncio.wait({read, free}, return_when=asyncio.FIRST_COMPLETED)
            free.cancel()
        read.result()
    finally:
        read.cancel()
    return message_id


class _Reference(msgspec.Struct):
    message: str | None = None


async def _wait_until_read(store: Store, run_id: str, after: Position, message_id: str, *, handled: bool) -> None:
    """Until the log has the message, or says that it was acted on."""
    event_type = InboxHandled.type if handled else InboxConsumed.type
    mark = message_id.encode()
    async for batch in store.log(run_id).follow(after):
        for raw in batch.data.split(b"\n"):
            line = parse(raw) if mark in raw else None
            if not isinstance(line, Line) or line.type not in (event_type, InboxRejected.type):
                continue
            with suppress(*DECODE_ERRORS):
                if msgspec.json.decode(line.data, type=_Reference).message == message_id:
                    return


async def _check_conversation(home: Home, run_id: str, conversation_id: str | None) -> RunState:
    state = (await view_run(home, run_id)).state
    if not state.is_chat:
        raise BadInput(f"run {run_id} is not a chat; its workflow is {_workflow_name(state)}")
    if conversation_id is None:
        return state
    conversation = state.conversations.get(conversation_id)
    if conversation is None:
        known = ", ".join(state.conversations) or "none"
        raise BadInput(f"run {run_id} has no conversation {conversation_id!r}; its conversations are {known}")
    if conversation.state in ENDED_STATES:
        raise BadInput(f"conversation {conversation_id} is {conversation.state}; open another one")
    return state


def _workflow_name(state: RunState) -> str:
    return state.run.workflow if state.run is not None else "unknown"
