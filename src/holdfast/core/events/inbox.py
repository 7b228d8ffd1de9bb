"""Messages read from the inbox."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import JSON_NULL, Event


class InboxConsumed(Event, frozen=True, kw_only=True):
    """A message was read from the inbox, with its whole content: from now on the log has it.

    `cursor` is the inbox position after it. Only this event moves the cursor, so each message is consumed once.
    """

    type: ClassVar[str] = "inbox.consumed"
    cursor: int
    message: str
    kind: str
    sender: str | None = None
    body: msgspec.Raw = JSON_NULL


class InboxHandled(Event, frozen=True, kw_only=True):
    """A consumed message has been acted on. Until then it is part of the state and survives any crash."""

    type: ClassVar[str] = "inbox.handled"
    message: str


class InboxRejected(Event, frozen=True, kw_only=True):
    """A line of the inbox is not a message, or is a duplicate. It is skipped and stays in the file."""

    type: ClassVar[str] = "inbox.rejected"
    cursor: int
    reason: str


class InboxReread(Event, frozen=True, kw_only=True):
    """The inbox file was cut, emptied or replaced by an older copy, so it is read again from `cursor`.

    Written together with what is then found in it; messages that the log already has are not consumed again.
    """

    type: ClassVar[str] = "inbox.reread"
    cursor: int


FAMILY = (InboxConsumed, InboxHandled, InboxRejected, InboxReread)
