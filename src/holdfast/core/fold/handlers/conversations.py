"""Handlers of conversation events: states, turns, permission requests, tool calls."""

from typing import Any

import msgspec

from holdfast.core.conversation.call_text import call_summary
from holdfast.core.conversation.states import (
    CANCELLED_BY_PERSON,
    ENDED_STATES,
    FINISHED_TURN_REASONS,
    IMPORTED,
    INTERRUPTED,
    NEW_SESSION_STRATEGIES,
    UNFINISHED_TURN_REASONS,
    RecoveryStrategy,
)
from holdfast.core.events.conversation import (
    CommandsListed,
    ConversationAttached,
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    ToolBlocked,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
    TurnWasEmpty,
)
from holdfast.core.events.work import ReportRefused
from holdfast.core.fold.handlers.base import on, optional_id
from holdfast.core.fold.handlers.limits import end_limit
from holdfast.core.fold.handlers.notices import forget_notices
from holdfast.core.log.codec import DECODE_ERRORS, Line
from holdfast.core.messages.answers import keep_answer
from holdfast.core.messages.schema import DenialReply, encode_body
from holdfast.core.state import (
    Conversation,
    GivenAnswer,
    OpenMessage,
    OpenTurn,
    PermissionRequest,
    RunState,
)

_UNDELIVERED_STOP_REASONS = (
    "refused",
    "refusal",
    "cancelled",
)  # after these the agent may not have received the prompt


@on(ConversationOpened)
def _conversation_opened(state: RunState, _: Line, event: ConversationOpened) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.agent, conversation.role, conversation.task = event.agent, event.role, optional_id(event.task)
    conversation.after, conversation.blank = event.after, event.after is not None
    task = state.tasks.get(conversation.task) if conversation.task is not None else None
    if task is not None and event.role == "worker":
        _transfer_unheard(state, task.worker, event.conversation)
        task.worker, task.since = event.conversation, 0
    elif task is not None and event.role == "evaluator":
        task.evaluator = event.conversation
    if event.about is None:
        return
    conversation.about = event.about
    research, phase = state.research.get(event.about), state.phases.get(event.about)
    if research is not None:
        research.talk = event.conversation
    elif phase is not None and event.role is not None:
        _transfer_unheard(state, phase.talks.get(event.role), event.conversation)
        phase.talks[event.role] = event.conversation


def _transfer_unheard(state: RunState, old_id: str | None, new_id: str) -> None:
    """Messages that the old conversation may not have received go to the new one."""
    old = state.conversations.get(old_id) if old_id != new_id and old_id is not None else None
    if old is not None:
        state.conversations[new_id].unheard, old.unheard = old.unheard | state.conversations[new_id].unheard, {}


@on(ConversationStateChanged)
def _conversation_state_changed(state: RunState, _: Line, event: ConversationStateChanged) -> None:
    _conversation(state, event.conversation).state = event.state
    if event.state in ENDED_STATES:  # messages for this conversation only can no longer be delivered
        state.messages = {
            key: message for key, message in state.messages.items() if message.conversation != event.conversation
        }


@on(ConversationTokenStored)
def _conversation_token_stored(state: RunState, _: Line, event: ConversationTokenStored) -> None:
    conversation = _conversation(state, event.conversation)
    if event.token != conversation.token:
        conversation.token, conversation.dollars = event.token, 0.0


@on(ConversationAttached)
def _conversation_attached(state: RunState, _: Line, event: ConversationAttached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.started = True
    conversation.fork_source = None
    if event.rung == RecoveryStrategy.HISTORY:
        conversation.blank = True
    if event.rung in NEW_SESSION_STRATEGIES:
        conversation.last_message = None  # the new session does not have it
    conversation.pid, conversation.start_time, conversation.boot_id = event.pid, event.start_time, event.boot_id
    conversation.model = event.model


@on(ConversationDetached)
def _conversation_detached(state: RunState, _: Line, event: ConversationDetached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.pid = conversation.start_time = conversation.boot_id = None


@on(ModeChanged)
def _mode_changed(state: RunState, _: Line, event: ModeChanged) -> None:
    _conversation(state, event.conversation).mode = event.mode


@on(CommandsListed)
def _commands_listed(state: RunState, _: Line, event: CommandsListed) -> None:
    _conversation(state, event.conversation).commands = event.commands


@on(PermissionRequested)
def _permission_requested(state: RunState, _: Line, event: PermissionRequested) -> None:
    conversation = _conversation(state, event.conversation)
    turn = conversation.turn
    state.permissions[event.request] = PermissionRequest(
        event.conversation,
        event.title,
        event.kind,
        event.paths,
        bytes(event.options).decode(),
        event.fingerprint,
        turn.turn if turn is not None else None,
        event.command,
        event.diffs,
        bytes(event.input).decode(),
        event.note,
    )
    if event.fingerprint is not None:
        conversation.granted.pop(event.fingerprint, None)
        if turn is not None:
            turn.answers.pop(event.fingerprint, None)


@on(PermissionAnswered)
def _permission_answered(state: RunState, line: Line, event: PermissionAnswered) -> None:
    """An answer is kept until the agent continues: if it is interrupted before that, it asks again."""
    request = state.permissions.pop(event.request, None)
    refused = request is not None and event.option in _rejecting_options(request)
    if request is not None and refused:
        _count_refusal(state, request.conversation)
    if request is not None and event.message is not None:
        allow = event.option is not None and not refused
        given = GivenAnswer(
            event.request, call_summary(request), allow, event.by, line.ts, event.option, event.reason, sid=line.sid
        )
        keep_answer(state, event.message, given)
    if request is not None and event.reason is not None:
        _queue_denial_reason(state, request, event)
    if request is None or request.fingerprint is None or event.option is None:
        return
    conversation = _conversation(state, request.conversation)
    turn = conversation.turn
    answers = turn.answers if turn is not None and turn.turn == request.turn else conversation.granted
    answers[request.fingerprint] = event.option


def _queue_denial_reason(state: RunState, request: PermissionRequest, event: PermissionAnswered) -> None:
    """The protocol has no field for the reason of a denial, so it becomes a message for the next prompt.

    A worker gets a prompt for it; any other agent gets it with its next regular prompt.
    """
    conversation = _conversation(state, request.conversation)
    task = state.tasks.get(conversation.task) if conversation.task is not None else None
    is_worker = task is not None and task.worker == request.conversation
    reply = DenialReply(f"Your request was denied: {call_summary(request)}\nThe reason: {event.reason}")
    state.messages[f"denial-{event.request}"] = OpenMessage(
        reply.kind,
        event.by,
        bytes(encode_body(reply)).decode(),
        conversation.task if is_worker else None,
        None if is_worker else request.conversation,
    )


def _rejecting_options(request: PermissionRequest) -> list[str]:
    """The options that reject. No choice, as when the turn was cancelled, is not a rejection."""
    try:
        offered: Any = msgspec.json.decode(request.options)
        return [option["id"] for option in offered or () if option["kind"].startswith("reject")]
    except (*DECODE_ERRORS, LookupError, TypeError, AttributeError):
        return []


@on(ToolBlocked)
def _tool_blocked(state: RunState, _: Line, event: ToolBlocked) -> None:
    _count_refusal(state, event.conversation)


def _count_refusal(state: RunState, conversation_id: str) -> None:
    """Count a denied tool call of a task's worker for the task."""
    known = state.conversations.get(conversation_id)
    task = state.tasks.get(known.task) if known is not None and known.task is not None else None
    if task is not None and task.worker == conversation_id:
        task.refused += 1


@on(TurnStarted)
def _turn_started(state: RunState, line: Line, event: TurnStarted) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.turns += 1
    conversation.told += bool(event.messages)
    conversation.turn = OpenTurn(event.turn, started=line.ts)
    conversation.last_turn = event.turn
    conversation.limited = False
    conversation.unheard |= {key: state.messages[key] for key in event.messages if key in state.messages}
    conversation.notices += [key for key in event.notices if key not in conversation.notices]


@on(TurnEnded)
def _turn_ended(state: RunState, _: Line, event: TurnEnded) -> None:
    conversation = _conversation(state, event.conversation)
    if event.stop_reason not in _UNDELIVERED_STOP_REASONS:
        conversation.blank, conversation.rewound = False, None
    if event.stop_reason not in _UNDELIVERED_STOP_REASONS or event.by is not None:
        conversation.briefed = conversation.briefed or event.stop_reason != IMPORTED
        conversation.unheard.clear()
        forget_notices(state, event.conversation)
        conversation.granted.clear()  # earlier requests are not repeated
    if state.limits:
        end_limit(state, conversation, conversation.turn, event.stop_reason)
    has_message = event.stop_reason in FINISHED_TURN_REASONS and event.message_id != conversation.last_message
    conversation.last_message = event.message_id if has_message else None
    conversation.empty = 0
    _close_turn(conversation, event.stop_reason if event.by is None else CANCELLED_BY_PERSON)


@on(TurnWasEmpty)
def _turn_was_empty(state: RunState, _: Line, event: TurnWasEmpty) -> None:
    """Written in the same append as the end of that turn, after it."""
    _conversation(state, event.conversation).empty = event.streak


@on(ReportRefused)
def _report_refused(state: RunState, _: Line, event: ReportRefused) -> None:
    conversation = state.conversations.get(event.conversation or "")
    if conversation is not None:
        conversation.refused = event.attempt


@on(TurnInterrupted)
def _turn_interrupted(state: RunState, _: Line, event: TurnInterrupted) -> None:
    conversation = _conversation(state, event.conversation)
    if conversation.turn is not None:
        conversation.granted.update(conversation.turn.answers)
    conversation.last_message = None
    _close_turn(conversation, INTERRUPTED)


def _close_turn(conversation: Conversation, stop_reason: str | None) -> None:
    conversation.turn, conversation.last = None, stop_reason
    if stop_reason in UNFINISHED_TURN_REASONS:
        conversation.interrupted_turns += 1
        conversation.cuts += 1
    else:
        conversation.cuts = 0


def close_request(state: RunState, conversation_id: str, conversation: Conversation) -> None:
    """Its unfinished turn is not continued: a person accepted what there is."""
    conversation.limited, conversation.last = False, CANCELLED_BY_PERSON
    conversation.unheard.clear()
    forget_notices(state, conversation_id)
    conversation.granted.clear()


@on(ToolCalled)
def _tool_called(state: RunState, _: Line, event: ToolCalled) -> None:
    turn = _conversation(state, event.conversation).turn
    if turn is not None:
        turn.calls[event.call] = event.tool
        turn.answers.clear()


@on(ToolDetailed)
def _tool_detailed(state: RunState, _: Line, event: ToolDetailed) -> None:
    turn = _conversation(state, event.conversation).turn
    if turn is not None and event.call in turn.calls:
        turn.calls[event.call] = event.tool


@on(ToolReturned)
def _tool_returned(state: RunState, _: Line, event: ToolReturned) -> None:
    turn = _conversation(state, event.conversation).turn
    if turn is not None:
        turn.calls.pop(event.call, None)
        if event.status != "interrupted":
            turn.answers.clear()


def _conversation(state: RunState, conversation_id: str) -> Conversation:
    found = state.conversations.get(conversation_id)
    if found is None:
        found = state.conversations[conversation_id] = Conversation()
    return found
