"""What people tell a run: durable in its inbox before they hear that it was taken, whoever owns the run, or nobody."""

import getpass
import secrets

from holdfast.core.messages.schema import Body
from holdfast.engine.home import Home
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Inbox, Message


async def send(home: Home, run_id: str, body: Body) -> str:
    """The message's id. A change stays with the run until a plan was made with it, whatever dies."""
    message = Message.of(body, message_id=secrets.token_hex(12), sender=user_name())
    await deliver(home.store.inbox(run_id), message)
    return message.id


async def deliver(inbox: Inbox, message: Message) -> None:
    """Durable when this returns. A disk that refuses is asked once more, for the same message: it then comes once."""
    try:
        await inbox.put(message)
    except StorageFailed:
        await inbox.put(message)


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"
