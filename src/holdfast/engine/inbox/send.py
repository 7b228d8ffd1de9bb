"""Sends a user's message to a run: durable in its inbox when this returns, whether or not a process owns the run."""

import getpass
import secrets

from holdfast.core.messages.schema import Body
from holdfast.engine.home import Home
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Inbox, Message


async def send(home: Home, run_id: str, body: Body) -> str:
    """Return the message's id. A change request stays with the run across crashes until a plan was made from it."""
    message = Message.of(body, message_id=secrets.token_hex(12), sender=user_name())
    await deliver(home.store.inbox(run_id), message)
    return message.id


async def deliver(inbox: Inbox, message: Message) -> None:
    """Durable when this returns. After a disk error it is written once more under the same id, so it arrives once."""
    try:
        await inbox.put(message)
    except StorageFailed:
        await inbox.put(message)


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"
