"""The messages of people that no prompt has delivered yet."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.messages.attachments import Attachment
from holdfast.core.messages.schema import (
    EDITABLE_KINDS,
    AddConversation,
    DeleteMessage,
    EditMessage,
    UserMessage,
    message_attachments,
    message_text,
    try_decode_body,
)
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run


class QueuedMessage(NamedTuple):
    """A message of a person that no prompt has delivered yet. It can be changed or taken back."""

    id: str
    kind: str
    text: str
    sender: str | None = None
    task: str | None = None
    conversation: str | None = None
    attachments: tuple[str, ...] = ()  # their names


async def list_queued(home: Home, run_id: str) -> list[QueuedMessage]:
    """The messages that no prompt has delivered yet, with every change that is on its way to them."""
    return await queued_beside(home, run_id, (await view_run(home, run_id)).state)


async def queued_beside(home: Home, run_id: str, state: RunState) -> list[QueuedMessage]:
    """The same for a run whose state is known already."""
    found = {
        key: QueuedMessage(
            key,
            open_message.kind,
            message_text(open_message.body),
            open_message.sender,
            open_message.task,
            open_message.conversation,
            _names(message_attachments(open_message.body)),
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
                    names = _names(body.attachments) if isinstance(body, UserMessage) else ()
                    found[message.id] = QueuedMessage(
                        message.id, message.kind, body.text, message.sender, body.task, body.conversation, names
                    )
                case EditMessage() as edit if edit.message in found:
                    found[edit.message] = found[edit.message]._replace(text=edit.text)
                case DeleteMessage() as delete:
                    found.pop(delete.message, None)
    return [*found.values()]


def _names(attachments: Sequence[Attachment]) -> tuple[str, ...]:
    return tuple(attachment.name for attachment in attachments)
