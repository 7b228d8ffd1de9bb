"""Messages taken in, until they are acted on."""

import msgspec

from holdfast.core.codec import Line
from holdfast.core.events.inbox import InboxConsumed, InboxHandled, InboxRejected
from holdfast.core.handlers.base import on
from holdfast.core.state import OpenMessage, RunState


class _Addressed(msgspec.Struct):
    task: str | None = None


@on(InboxConsumed)
def _inbox_consumed(state: RunState, _: Line, event: InboxConsumed) -> None:
    state.inbox_cursor = max(state.inbox_cursor, event.cursor)
    state.inbox_consumed += 1
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
    state.messages.pop(event.message, None)


@on(InboxRejected)
def _inbox_rejected(state: RunState, _: Line, event: InboxRejected) -> None:
    state.inbox_cursor = max(state.inbox_cursor, event.cursor)
