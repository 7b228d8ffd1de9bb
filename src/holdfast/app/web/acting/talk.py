"""What people say to a run: messages, answers, changes, and the conversations of a chat."""

from typing import Any

import msgspec

from holdfast.app.web.endpoint import Call, Nothing, delete, post
from holdfast.app.web.problems import NotFound
from holdfast.app.web.reading.runs import conversation_of
from holdfast.app.web.shapes.conversation import ConversationView
from holdfast.core.messages.attachments import Attachment
from holdfast.core.messages.schema import AcceptRequest, AddConversation, ChangeRequest, UserAnswer, UserMessage
from holdfast.core.summary.needs import needs_to_answer
from holdfast.engine.commands.answer import find_sent_answer, raise_if_answered, send_answer
from holdfast.engine.commands.chat import (
    add_attachment,
    cancel_turn,
    delete_queued,
    edit_queued,
    queue_chat_message,
    resume_conversation,
    revoke_rule,
    see_read,
    set_option,
)
from holdfast.engine.commands.send import message_id_of, send
from holdfast.leaf.errors import BadInput, NothingToDo


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For the agent of a task, of one conversation of a chat, or the next agent that gets a prompt."""

    text: str
    task: str | None = None
    conversation: str | None = None
    attachments: list[Attachment] = []


class NewAttachment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file for a message of a chat; `data` is base64."""

    name: str
    data: bytes
    media_type: str | None = None


class Sent(msgspec.Struct, frozen=True):
    """A durable message. `queued`: no prompt has delivered it yet."""

    message: str
    queued: bool = True


class QueuedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another text; null takes the message back."""

    text: str | None


class NewChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that the next plan must include."""

    text: str
    task: str | None = None


class NewAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a need with a `key`. `option`: of a permission request. `changes`: before a phase is approved."""

    request: str
    allow: bool
    option: str | None = None
    changes: str | None = None
    reason: str | None = None
    always: bool = False


class Answered(msgspec.Struct, frozen=True):
    """`applied_by`: the runner applies it now, or the next resume does."""

    message: str
    applied_by: str


class Acceptance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The work of a chat is checked, committed and merged into the run's branch. `finish`: the chat is over then."""

    task: str | None = None
    conversation: str | None = None
    finish: bool = False


class NewConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    text: str
    task: str | None = None
    own_worktree: bool = False


class OpenedConversation(msgspec.Struct, frozen=True):
    conversation: str


class ConversationOption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mode`, `model`, or another option of its agent; null is the agent's own choice."""

    option: str
    value: str | None = None


class TurnToCancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    conversation: str


@post("/runs/{run}/attachments", "Store a file for a message of a chat; name what this returns in the message", 200)
async def attach_file(call: Call[Nothing, NewAttachment]) -> Attachment:
    body = call.body
    return await add_attachment(call.site.home, call.run_id(), body.name, body.data, body.media_type)


@post("/runs/{run}/messages", "Send a message to an agent; that of a chat starts a runner if there is none")
async def send_message(call: Call[Nothing, NewMessage]) -> Sent:
    run_id, body = call.run_id(), call.body
    if not body.text.strip():
        raise BadInput("the message is empty; write some words")
    state, _ = await call.site.states.state(run_id)
    message = UserMessage(body.text, body.task, body.conversation, tuple(body.attachments))
    if not state.is_chat and body.attachments:
        raise BadInput(f"run {run_id} is not a chat; only messages of a chat have attachments")
    if not state.is_chat:
        if body.task is not None and body.task not in state.tasks and body.task not in state.phases:
            raise BadInput(f"run {run_id} has no task or phase {body.task!r}")
        return Sent(await send(call.site.home, run_id, message, _key(call)))
    return await _queue(call, run_id, message)


async def _queue(call: Call[Any, Any], run_id: str, body: UserMessage | AcceptRequest | AddConversation) -> Sent:
    message_id = await queue_chat_message(call.site.home, run_id, body, _key(call))
    call.site.spawn(see_read(call.site.home, run_id, message_id))
    return Sent(message_id)


def _key(call: Call[Any, Any]) -> str | None:
    """The key of the request; the same key for another endpoint or run is another one."""
    return f"{call.request.url.path} {call.key}" if call.key is not None else None


@post("/runs/{run}/messages/{message}", "Change or take back a message that is not delivered yet")
async def change_message(call: Call[Nothing, QueuedChange]) -> Sent:
    run_id, message_id, text = call.run_id(), call.path["message"], call.body.text
    if text is None:
        return Sent(await delete_queued(call.site.home, run_id, message_id))
    return Sent(await edit_queued(call.site.home, run_id, message_id, text))


@delete("/runs/{run}/messages/{message}", "Take back a message that is not delivered yet")
async def take_back_message(call: Call[Nothing, Nothing]) -> Sent:
    return Sent(await delete_queued(call.site.home, call.run_id(), call.path["message"]), queued=False)


@post("/runs/{run}/changes", "Ask for a change of the plan")
async def request_change(call: Call[Nothing, NewChange]) -> Sent:
    run_id, body = call.run_id(), call.body
    if not body.text.strip():
        raise BadInput("the change is empty; write what to change")
    return Sent(await send(call.site.home, run_id, ChangeRequest(body.text, body.task), _key(call)))


@post("/runs/{run}/answers", "Answer a permission request or an approval; the first answer counts")
async def answer_request(call: Call[Nothing, NewAnswer]) -> Answered:
    run_id, given, home = call.run_id(), call.body, call.site.home
    applied_by = "runner" if home.is_owned(run_id) else "resume"
    key = _key(call)
    if key is not None and (sent := await find_sent_answer(home, run_id, key)) is not None:
        return Answered(sent, applied_by)
    state, _ = await call.site.states.state(run_id)
    need = next((need for need in needs_to_answer(state) if need.key == given.request), None)
    if need is None:
        raise_if_answered(run_id, state, given.request)
        raise NothingToDo(f"run {run_id} has no open request {given.request!r}; the agent may have withdrawn it")
    answer = UserAnswer(
        given.request, given.allow, given.option, given.changes, given.reason, always=given.always and given.allow
    )
    return Answered(await send_answer(home, run_id, state, need, answer, key), applied_by)


@post("/runs/{run}/accept", "Accept the work of a chat")
async def accept_work(call: Call[Nothing, Acceptance]) -> Sent:
    body = call.body
    return await _queue(call, call.run_id(), AcceptRequest(body.task, body.conversation, body.finish))


@post("/runs/{run}/conversations", "Open another conversation in a chat, with its first message")
async def open_conversation(call: Call[Nothing, NewConversation]) -> OpenedConversation:
    body = call.body
    if not body.text.strip():
        raise BadInput("the message is empty; write some words")
    conversation = message_id_of(_key(call))[:12]
    opened = AddConversation(conversation, body.agent, body.text, body.task, body.own_worktree)
    await _queue(call, call.run_id(), opened)
    return OpenedConversation(conversation)


@post("/runs/{run}/conversations/{conversation}/resume", "Start the agent of a conversation, idle; once for several")
async def resume_one_conversation(call: Call[Nothing, Nothing]) -> ConversationView:
    run_id, conversation = call.run_id(), call.path["conversation"]
    status = await conversation_of(call.site, run_id, conversation)
    if status.is_agent_running:
        return status
    name = ("resume_one_conversation", run_id, conversation)
    await call.site.shared_work.do(name, lambda: resume_conversation(call.site.home, run_id, conversation))
    return await conversation_of(call.site, run_id, conversation)


@post("/runs/{run}/conversations/{conversation}/options", "Choose the mode, the model or another option of an agent")
async def choose_option(call: Call[Nothing, ConversationOption]) -> Sent:
    run_id, conversation, body = call.run_id(), call.path["conversation"], call.body
    return Sent(await set_option(call.site.home, run_id, conversation, body.option, body.value))


@post("/runs/{run}/turns/{turn}/cancel", "Cancel a turn of a chat")
async def cancel_one_turn(call: Call[Nothing, TurnToCancel]) -> Sent:
    return Sent(await cancel_turn(call.site.home, call.run_id(), call.body.conversation, call.path["turn"]))


@post("/runs/{run}/rules/{rule}/revoke", "Ask again for what was always allowed")
async def revoke_one_rule(call: Call[Nothing, Nothing]) -> Sent:
    run_id, rule = call.run_id(), call.path["rule"]
    state, _ = await call.site.states.state(run_id)
    if rule not in state.rules:
        raise NotFound(f"run {run_id} has no rule {rule!r}")
    return Sent(await revoke_rule(call.site.home, run_id, rule))
