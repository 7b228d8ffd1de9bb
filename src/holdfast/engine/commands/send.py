"""Sends a person's message to a run: durable in its inbox when this returns, whether or not a process owns the run."""

import secrets

from holdfast.core.messages.schema import Body
from holdfast.engine.home import Home
from holdfast.engine.inbox.deliver import deliver, user_name
from holdfast.store.base import Message


async def send(home: Home, run_id: str, body: Body) -> str:
    """Return the message's id. A change request stays with the run until a plan includes it, whatever is killed."""
    message = Message.of(body, message_id=secrets.token_hex(12), sender=user_name())
    await deliver(home.store.inbox(run_id), message)
    return message.id
