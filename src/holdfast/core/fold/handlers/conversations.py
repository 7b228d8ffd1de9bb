"""Dialogues with agents: where each stands, and what it waits for."""

from typing import Any

import msgspec

from holdfast.core.conversation.call_text import summary_of
from holdfast.core.conversation.states import CUT_OFF, INTERRUPTED, OVER, Rung
from holdfast.core.events.conversation import (
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
from holdfast.core.fold.handlers.base import name_of, on
from holdfast.core.fold.handlers.notices import forget_notices
from holdfast.core.log.codec import UNREADABLE, Line
from holdfast.core.messages.answers import keep_answer
from holdfast.core.state import DENIAL, Conversation, GivenAnswer, OpenMessage, Permission, RunState, Turn

_UNHEARD = ("refused", "refusal", "cancelled")  # ends after which the agent may go on as if it had not been prompted


@on(ConversationOpened)
def _conversation_opened(state: RunState, _: Line, event: ConversationOpened) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.agent, conversation.role, conversation.task = event.agent, event.role, name_of(event.task)
    task = state.tasks.get(conversation.task) if conversation.task is not None else None
    if task is not None and event.role == "worker":
        _handed_on(state, task.worker, event.conversation)
        task.worker, task.since = event.conversation, 0
    elif task is not None and event.role == "evaluator":
        task.evaluator = event.conversation
    if event.about is None:
        return
    conversation.about = event.about
    asked, phase = state.research.get(event.about), state.phases.get(event.about)
    if asked is not None:
        asked.talk = event.conversation
    elif phase is not None and event.role is not None:
        _handed_on(state, phase.talks.get(event.role), event.conversation)
        phase.talks[event.role] = event.conversation


def _handed_on(state: RunState, before: str | None, now: str) -> None:
    """What one may not have heard is for the other that takes its place."""
    old = state.conversations.get(before) if before != now and before is not None else None
    if old is not None:
        state.conversations[now].unheard, old.unheard = old.unheard | state.conversations[now].unheard, {}


@on(ConversationStateChanged)
def _conversation_state_changed(state: RunState, _: Line, event: ConversationStateChanged) -> None:
    _conversation(state, event.conversation).state = event.state
    if event.state in OVER:  # nobody is left who could hear what is for it alone
        state.messages = {key: one for key, one in state.messages.items() if one.conversation != event.conversation}


@on(ConversationTokenStored)
def _conversation_token_stored(state: RunState, _: Line, event: ConversationTokenStored) -> None:
    conversation = _conversation(state, event.conversation)
    if event.token != conversation.token:
        conversation.token, conversation.dollars = event.token, 0.0


@on(ConversationAttached)
def _conversation_attached(state: RunState, _: Line, event: ConversationAttached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.started = True
    if event.rung == Rung.INJECT:
        conversation.blank = True
    conversation.pid, conversation.start_time, conversation.boot_id = event.pid, event.start_time, event.boot_id


@on(ConversationDetached)
def _conversation_detached(state: RunState, _: Line, event: ConversationDetached) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.pid = conversation.start_time = conversation.boot_id = None


@on(ModeChanged)
def _mode_changed(state: RunState, _: Line, event: ModeChanged) -> None:
    _conversation(state, event.conversation).mode = event.mode


@on(PermissionRequested)
def _permission_requested(state: RunState, _: Line, event: PermissionRequested) -> None:
    conversation = _conversation(state, event.conversation)
    turn = conversation.turn
    state.permissions[event.request] = Permission(
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
    """An answer is kept until the agent shows that it goes on: cut off before that, it will ask again."""
    asked = state.permissions.pop(event.request, None)
    refused = asked is not None and event.option in _refusals(asked)
    if asked is not None and refused:
        _count_refusal(state, asked.conversation)
    if asked is not None and event.message is not None:
        allow = event.option is not None and not refused
        given = GivenAnswer(
            event.request, summary_of(asked), allow, event.by, line.ts, event.option, event.reason, sid=line.sid
        )
        keep_answer(state, event.message, given)
    if asked is not None and event.reason is not None:
        _tell_why(state, asked, event)
    if asked is None or asked.fingerprint is None or event.option is None:
        return
    conversation = _conversation(state, asked.conversation)
    turn = conversation.turn
    kept = turn.answers if turn is not None and turn.turn == asked.turn else conversation.granted
    kept[asked.fingerprint] = event.option


def _tell_why(state: RunState, asked: Permission, event: PermissionAnswered) -> None:
    """The protocol has no field for the reason of a refusal: it goes into the next prompt, as a message.

    A worker gets a prompt for it; whoever else asked is told with the next prompt that there is.
    """
    talk = _conversation(state, asked.conversation)
    task = state.tasks.get(talk.task) if talk.task is not None else None
    is_worker = task is not None and task.worker == asked.conversation
    body = msgspec.json.encode({"text": f"Your request was denied: {summary_of(asked)}\nThe reason: {event.reason}"})
    state.messages[f"denial-{event.request}"] = OpenMessage(
        DENIAL,
        event.by,
        body.decode(),
        talk.task if is_worker else None,
        None if is_worker else asked.conversation,
    )


def _refusals(asked: Permission) -> list[str]:
    """The answers that refuse. That nobody chose, as when the turn was cancelled, is no refusal."""
    try:
        offered: Any = msgspec.json.decode(asked.options)
        return [one["id"] for one in offered or () if one["kind"].startswith("reject")]
    except (*UNREADABLE, LookupError, TypeError, AttributeError):
        return []


@on(ToolBlocked)
def _tool_blocked(state: RunState, _: Line, event: ToolBlocked) -> None:
    _count_refusal(state, event.conversation)


def _count_refusal(state: RunState, conversation: str) -> None:
    """Those of a task's worker count for the task."""
    known = state.conversations.get(conversation)
    task = state.tasks.get(known.task) if known is not None and known.task is not None else None
    if task is not None and task.worker == conversation:
        task.refused += 1


@on(TurnStarted)
def _turn_started(state: RunState, line: Line, event: TurnStarted) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.turns += 1
    conversation.told += bool(event.messages)
    conversation.turn = Turn(event.turn, started=line.ts)
    conversation.unheard |= {key: state.messages[key] for key in event.messages if key in state.messages}
    conversation.notices += [key for key in event.notices if key not in conversation.notices]


@on(TurnEnded)
def _turn_ended(state: RunState, _: Line, event: TurnEnded) -> None:
    conversation = _conversation(state, event.conversation)
    if event.stop_reason not in _UNHEARD:
        conversation.blank, conversation.briefed = False, True
        conversation.unheard.clear()
        forget_notices(state, event.conversation)
        conversation.granted.clear()  # what was asked before is not asked again
    conversation.last_message = event.message_id or conversation.last_message
    conversation.empty = 0
    _turn_is_over(conversation, event.stop_reason)


@on(TurnWasEmpty)
def _turn_was_empty(state: RunState, _: Line, event: TurnWasEmpty) -> None:
    """Written together with the end of that turn, and after it."""
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
    _turn_is_over(conversation, INTERRUPTED)


def _turn_is_over(conversation: Conversation, last: str | None) -> None:
    conversation.turn, conversation.last = None, last
    if last in CUT_OFF:
        conversation.interrupted_turns += 1
        conversation.cuts += 1
    else:
        conversation.cuts = 0


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


def _conversation(state: RunState, name: str) -> Conversation:
    found = state.conversations.get(name)
    if found is None:
        found = state.conversations[name] = Conversation()
    return found
