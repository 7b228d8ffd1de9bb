"""Sends a person's message to a run: durable in its inbox when this returns, whether or not a process owns the run."""

import hashlib
import secrets

from holdfast.core.messages.schema import Body
from holdfast.engine.home import Home
from holdfast.engine.inbox.deliver import deliver, user_name
from holdfast.store.base import Message


async def send(home: Home, run_id: str, body: Body, key: str | None = None) -> str:
    """Return the message's id. A change request stays with the run until a plan includes it, whatever is killed.

    With a key of the sender, a second message with the same key is the first one: nothing is sent again.
    """
    message = Message.of(body, message_id=message_id_of(key), sender=user_name())
    await deliver(home.store.inbox(run_id), message)
    if home.store_url is not None:
        from holdfast.engine.commands.cluster.wake import wake_run  # noqa: PLC0415 - loads the config

        await wake_run(home, run_id)
    return message.id


def message_id_of(key: str | None) -> str:
    """The id of the message with this key; a new one without a key."""
    return secrets.token_hex(12) if key is None else hashlib.sha256(f"message {key}".encode()).hexdigest()[:24]
