"""Messages taken in, until they are acted on."""

import msgspec

from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected, InboxReread
from holdfast.core.fold.handlers.base import on
from holdfast.core.fold.handlers.notices import forget_notices
from holdfast.core.log.codec import Line
from holdfast.core.messages.reports import SIGNAL
from holdfast.core.state import DENIAL, RESEARCH, OpenMessage, RunState, TaskStatus

_TO_BE_DONE = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)


class _Addressed(msgspec.Struct):
    task: str | None = None


@on(InboxConsumed)
def _inbox_consumed(state: RunState, _: Line, event: InboxConsumed) -> None:
    _read_until(state, event.cursor, event.message)
    state.inbox_consumed += 1
    sender = state.conversations.get(event.sender) if event.sender is not None else None
    if sender is not None:
        sender.reports += 1
    state.messages[event.message] = OpenMessage(
        event.kind, event.sender, bytes(event.body).decode(), _addressee(event.body)
    )


def _addressee(body: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Addressed).task
    except msgspec.MsgspecError:
        return None


@on(InboxHandled)
def _inbox_handled(state: RunState, _: Line, event: InboxHandled) -> None:
    """Reports count in the order in which they are acted on: several may be taken in at once."""
    message = state.messages.pop(event.message, None)
    sender = state.conversations.get(message.sender or "") if message is not None else None
    if message is not None and sender is not None and message.kind.startswith(SIGNAL):
        sender.refused = 0


def acted_on(state: RunState, conversation: str | None) -> None:
    """It has done what it was told, however its turn ends; and so it knows what it is there for."""
    talk = state.conversations.get(conversation) if conversation is not None else None
    if talk is not None:
        talk.unheard, talk.briefed = {}, True
        forget_notices(state, conversation)


def give_back(state: RunState, conversation: str | None) -> None:
    """Nobody goes on with this conversation: what it may not have heard is for whoever comes next."""
    talk = state.conversations.get(conversation) if conversation is not None else None
    if talk is not None:
        shared = {key: message for key, message in talk.unheard.items() if message.conversation is None}
        state.messages, talk.unheard = shared | state.messages, {}


def hand_on(state: RunState, conversation: str | None, task: str) -> None:
    """The same, when nobody goes on with its task either. What was for that one is over with it.

    So is all of it where nobody is left who could hear it: what was finished without it is not opened again by it.
    """
    talk = state.conversations.get(conversation) if conversation is not None else None
    if talk is not None:
        planned = [state.tasks.get(name) for name in state.plan.order] if state.plan is not None else []
        left = any(one is not None and one.status in _TO_BE_DONE for one in planned)
        talk.unheard = {key: words for key, words in talk.unheard.items() if left and words.task != task}
        give_back(state, conversation)


def drop_replies(state: RunState, address: str) -> None:
    """The task or phase is over: its agents need no answers to their research any more, nor why they were denied."""
    left = state.messages.items()
    state.messages = {key: one for key, one in left if one.kind not in (DENIAL, RESEARCH) or one.task != address}


@on(InboxRejected)
def _inbox_rejected(state: RunState, _: Line, event: InboxRejected) -> None:
    _read_until(state, event.cursor, None)


@on(InboxReread)
def _inbox_reread(state: RunState, _: Line, event: InboxReread) -> None:
    state.inbox_cursor, state.inbox_last, state.inbox_reread = event.cursor, None, True


def _read_until(state: RunState, cursor: int, message: str | None) -> None:
    if cursor >= state.inbox_cursor:
        state.inbox_cursor, state.inbox_last = cursor, message
