"""Puts a message into a run's inbox, whether or not a process owns the run."""

from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Inbox, Message


async def deliver(inbox: Inbox, message: Message) -> None:
    """Return when the message is durable. After a failed write it tries once more; the message is delivered once."""
    try:
        await inbox.put(message)
    except StorageFailed:
        await inbox.put(message)


def user_name() -> str:
    try:
        from getpass import getuser  # noqa: PLC0415 - loads the terminal's module

        return getuser()
    except (KeyError, OSError):
        return "user"
