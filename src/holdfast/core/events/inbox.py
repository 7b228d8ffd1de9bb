"""Messages taken in from people and agents."""

from typing import ClassVar

import msgspec

from holdfast.core.events.base import NOTHING, Event


class InboxConsumed(Event, frozen=True, kw_only=True):
    """One message was taken in, whole: from here on it is the log that knows it.

    `cursor` is the inbox position after it. That it moves only by this event is what makes
    consumption happen once.
    """

    type: ClassVar[str] = "inbox.consumed"
    cursor: int
    message: str
    kind: str
    sender: str | None = None
    body: msgspec.Raw = NOTHING


class InboxHandled(Event, frozen=True, kw_only=True):
    """A message that was taken in has been acted on. Until then it is part of the state, whatever dies."""

    type: ClassVar[str] = "inbox.handled"
    message: str


class InboxRejected(Event, frozen=True, kw_only=True):
    """A line of the inbox that is no message, or a message that was there already; passed over, not lost."""

    type: ClassVar[str] = "inbox.rejected"
    cursor: int
    reason: str


class InboxReread(Event, frozen=True, kw_only=True):
    """The inbox is not the one that was read so far: cut short, emptied, or an older one is in its place.

    Read again from `cursor`. Written with all that is then found in it: what the log has is not taken in once more.
    """

    type: ClassVar[str] = "inbox.reread"
    cursor: int


FAMILY = (InboxConsumed, InboxHandled, InboxRejected, InboxReread)
