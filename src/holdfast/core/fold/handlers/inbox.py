"""Handlers of inbox events: consumed messages, until they are handled."""

from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected, InboxReread
from holdfast.core.fold.handlers.base import on
from holdfast.core.fold.handlers.notices import forget_notices
from holdfast.core.log.codec import Line
from holdfast.core.messages.schema import CONVERSATION_KINDS, REPLY_KINDS, addressee, is_report
from holdfast.core.state import OpenMessage, RunState
from holdfast.core.task_index import task_index
from holdfast.core.task_state import BEGUN_STATUSES, TaskStatus

_UNFINISHED_STATUSES = (TaskStatus.PENDING, *BEGUN_STATUSES)


@on(InboxConsumed)
def _inbox_consumed(state: RunState, _: Line, event: InboxConsumed) -> None:
    _advance_cursor(state, event.cursor, event.message)
    state.inbox_consumed += 1
    sender = state.conversations.get(event.sender) if event.sender is not None else None
    if sender is not None:
        sender.reports += 1
    to = addressee(event.body)
    own = to.conversation if event.kind in CONVERSATION_KINDS else None
    state.messages[event.message] = OpenMessage(event.kind, event.sender, bytes(event.body).decode(), to.task, own)


@on(InboxHandled)
def _inbox_handled(state: RunState, _: Line, event: InboxHandled) -> None:
    """Reports count in the order in which they are handled: several may be consumed at once."""
    message = state.messages.pop(event.message, None)
    sender = state.conversations.get(message.sender or "") if message is not None else None
    if message is not None and sender is not None and is_report(message.kind):
        sender.refused = 0


def mark_delivered(state: RunState, conversation_id: str | None) -> None:
    """The agent submitted its result, so it received its prompts, however its turn ends."""
    conversation = state.conversations.get(conversation_id) if conversation_id is not None else None
    if conversation is not None:
        conversation.unheard, conversation.briefed = {}, True
        forget_notices(state, conversation_id)


def requeue_unheard(state: RunState, conversation_id: str | None) -> None:
    """This conversation does not continue: messages that it may not have received are queued again for others."""
    conversation = state.conversations.get(conversation_id) if conversation_id is not None else None
    if conversation is not None:
        shared = {key: message for key, message in conversation.unheard.items() if message.conversation is None}
        state.messages, conversation.unheard = shared | state.messages, {}


def requeue_for_others(state: RunState, conversation_id: str | None, task_id: str) -> None:
    """Like `requeue_unheard`, when its task does not continue either: messages for that task are dropped.

    All messages are dropped when no unfinished task is left: they must not reopen completed tasks.
    """
    conversation = state.conversations.get(conversation_id) if conversation_id is not None else None
    if conversation is not None:
        counts = task_index(state).counts
        left = any(counts[status] for status in _UNFINISHED_STATUSES)
        conversation.unheard = {
            key: message for key, message in conversation.unheard.items() if left and message.task != task_id
        }
        requeue_unheard(state, conversation_id)


def drop_replies(state: RunState, address: str) -> None:
    """The task or phase has ended: its agents need no research answers or denial reasons any more."""
    left = state.messages.items()
    state.messages = {
        key: message for key, message in left if message.kind not in REPLY_KINDS or message.task != address
    }


@on(InboxRejected)
def _inbox_rejected(state: RunState, _: Line, event: InboxRejected) -> None:
    _advance_cursor(state, event.cursor, None)


@on(InboxReread)
def _inbox_reread(state: RunState, _: Line, event: InboxReread) -> None:
    state.inbox_cursor, state.inbox_last, state.inbox_reread = event.cursor, None, True


def _advance_cursor(state: RunState, cursor: int, message_id: str | None) -> None:
    if cursor >= state.inbox_cursor:
        state.inbox_cursor, state.inbox_last = cursor, message_id
