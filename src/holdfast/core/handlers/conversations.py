"""Dialogues with agents: where each stands, and what it waits for."""

from holdfast.core.codec import Line
from holdfast.core.conversation import CUT_OFF, INTERRUPTED, Rung
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationDetached,
    ConversationOpened,
    ConversationStateChanged,
    ConversationTokenStored,
    ModeChanged,
    PermissionAnswered,
    PermissionRequested,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.handlers.base import name_of, on
from holdfast.core.state import Conversation, Permission, RunState, Turn

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
    )
    if event.fingerprint is not None:
        conversation.granted.pop(event.fingerprint, None)
        if turn is not None:
            turn.answers.pop(event.fingerprint, None)


@on(PermissionAnswered)
def _permission_answered(state: RunState, _: Line, event: PermissionAnswered) -> None:
    """An answer is kept until the agent shows that it goes on: cut off before that, it will ask again."""
    asked = state.permissions.pop(event.request, None)
    if asked is None or asked.fingerprint is None or event.option is None:
        return
    conversation = _conversation(state, asked.conversation)
    turn = conversation.turn
    kept = turn.answers if turn is not None and turn.turn == asked.turn else conversation.granted
    kept[asked.fingerprint] = event.option


@on(TurnStarted)
def _turn_started(state: RunState, line: Line, event: TurnStarted) -> None:
    conversation = _conversation(state, event.conversation)
    conversation.turns += 1
    conversation.told += bool(event.messages)
    conversation.turn = Turn(event.turn, started=line.ts)
    conversation.unheard |= {key: state.messages[key] for key in event.messages if key in state.messages}


@on(TurnEnded)
def _turn_ended(state: RunState, _: Line, event: TurnEnded) -> None:
    conversation = _conversation(state, event.conversation)
    if event.stop_reason not in _UNHEARD:
        conversation.blank, conversation.briefed = False, True
        conversation.unheard.clear()
        conversation.granted.clear()  # what was asked before is not asked again
    _turn_is_over(conversation, event.stop_reason)


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
