"""Chats, from outside: send a message, accept the work, and whatever else a person does between turns.

Nothing is started before it is needed. A message is durable first; then a runner is started unless one has read it. No
message falls between a runner that ends and the next: the sender waits until its message is in the log or the run is
free, and only then starts a runner.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from holdfast.agents.registry import find_agent
from holdfast.core.conversation.agent_commands import compact_command
from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected
from holdfast.core.events.plan import ProposedTask
from holdfast.core.log.codec import DECODE_ERRORS, Line, parse
from holdfast.core.messages.attachments import MAX_ATTACHMENTS, Attachment
from holdfast.core.messages.schema import (
    AcceptRequest,
    AddConversation,
    CancelTurn,
    DeleteMessage,
    EditMessage,
    EditPlan,
    ResumeConversation,
    RevokeRule,
    SetOption,
    UserMessage,
)
from holdfast.core.state import RunState
from holdfast.engine.attachments import has_attachment, share_attachment, store_attachment
from holdfast.engine.commands.detach import start_detached
from holdfast.engine.commands.send import send
from holdfast.engine.config.of_run import run_config_for
from holdfast.engine.home import Home
from holdfast.engine.inbox.handle_chat import proposed_plan
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.engine.queries.queued import list_queued
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
    | EditPlan
)


# A chat


async def send_chat_message(
    home: Home,
    run_id: str,
    text: str,
    *,
    task: str | None = None,
    conversation: str | None = None,
    attachments: Sequence[Attachment] = (),
) -> str:
    """Send a message, and start the run if nobody works on it. Returns the message's id once a runner has read it.

    `attachments` come from `add_attachment`: a message never names a file that is not on the disk.
    """
    await _check_conversation(home, run_id, conversation)
    await _check_attachments(home, run_id, attachments)
    return await _send_and_wait(home, run_id, UserMessage(text, task, conversation, tuple(attachments)))


async def add_attachment(home: Home, run_id: str, name: str, data: bytes, media_type: str | None = None) -> Attachment:
    """Store a file for a message of a chat. It is on the disk when this returns, and stays with the run.

    Only the last part of `name` is used. Without a valid `media_type`, it is chosen by the name and the content.
    """
    await _check_conversation(home, run_id, None)
    folder = home.folder(run_id)
    attachment = await asyncio.to_thread(store_attachment, folder, name, data, media_type)
    await share_attachment(home, run_id, attachment)
    return attachment


async def compact(home: Home, run_id: str, conversation: str) -> str:
    """Have the agent shorten its memory of a conversation, by its own command. `BadInput` if it has none."""
    found = (await _check_conversation(home, run_id, conversation)).conversations[conversation]
    command = compact_command(found.commands)
    if command is None:
        listed = ", ".join(f"/{name}" for name in found.commands) or "none so far"
        raise BadInput(
            f"{found.agent or 'the agent'} has no command that compacts a conversation; its commands: {listed}"
        )
    return await send_chat_message(home, run_id, f"/{command}", conversation=conversation)


async def _check_attachments(home: Home, run_id: str, attachments: Sequence[Attachment]) -> None:
    if len(attachments) > MAX_ATTACHMENTS:
        raise BadInput(f"a message has at most {MAX_ATTACHMENTS} attachments; send the others with another message")
    for attachment in attachments:
        if not await has_attachment(home, run_id, attachment):
            raise BadInput(f"run {run_id} has no attachment {attachment.name!r} ({attachment.id}); attach it first")


async def queue_chat_message(
    home: Home, run_id: str, body: UserMessage | AcceptRequest | AddConversation, key: str | None = None
) -> str:
    """Send it, and return when it is durable: `see_read` starts a runner for it. The same key sends it once."""
    await _check_conversation(home, run_id, None if isinstance(body, AddConversation) else body.conversation)
    if isinstance(body, AddConversation):
        state = (await view_run(home, run_id)).state
        find_agent(body.agent, run_config_for(home, state).agents)  # else the runner would drop the message
    if isinstance(body, UserMessage):
        await _check_attachments(home, run_id, body.attachments)
    return await send(home, run_id, body, key)


async def see_read(home: Home, run_id: str, message_id: str) -> None:
    """Start runners until one has read this message, if none has yet."""
    while True:
        before = await end_of_log(home, run_id)
        if not await _is_unread(home, run_id, message_id):
            return
        await _run_until_read(home, run_id, before, message_id, until_handled=False)


async def _is_unread(home: Home, run_id: str, message_id: str) -> bool:
    state = (await view_run(home, run_id)).state
    async for _, message, _ in home.store.inbox(run_id).read(state.inbox_cursor):
        if message is not None and message.id == message_id:
            return True
    return False


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


async def edit_plan(home: Home, run_id: str, overview: str, tasks: Sequence[ProposedTask], seeds: Sequence[str]) -> str:
    """Replace the plan of an interview. The interviewer is told with the next message."""
    state = await _check_conversation(home, run_id, None)
    proposed_plan(state, overview, tasks, seeds)  # raises what is wrong with it
    return await _send_and_wait(home, run_id, EditPlan(overview, [*tasks], [*seeds]))


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
    await _run_until_read(home, run_id, before, message_id, until_handled=until_handled)
    return message_id


async def _run_until_read(home: Home, run_id: str, before: Position, message_id: str, *, until_handled: bool) -> None:
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
