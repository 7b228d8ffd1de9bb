"""What people tell a run: durable in its inbox before they hear that it was taken, whoever owns the run, or nobody."""

import getpass
import secrets
from typing import Any

import msgspec

from holdfast.core.messages.addressing import USER_MESSAGE
from holdfast.leaf.errors import StorageFailed
from holdfast.store.base import Inbox, Message
from holdfast.store.files.store import FileStore

STOP, CHANGE = "stop", "change"


class StopRequest(msgspec.Struct, frozen=True):
    """For whoever owned the run when it was asked: a sitting that begins later is not meant."""

    epoch: int
    reason: str = "stopped"


class Words(msgspec.Struct, frozen=True):
    """For the agent at work on a task; for whichever is told something next, when none is named."""

    text: str
    task: str | None = None


async def send(home: str, run_id: str, words: Words) -> str:
    return await put_message(home, run_id, USER_MESSAGE, words)


async def ask_for_change(home: str, run_id: str, words: Words) -> str:
    """It stays with the run until a plan was made with it, whatever dies."""
    return await put_message(home, run_id, CHANGE, words)


async def put_message(home: str, run_id: str, kind: str, body: Any) -> str:
    message = Message(
        id=secrets.token_hex(12), kind=kind, sender=user_name(), body=msgspec.Raw(msgspec.json.encode(body))
    )
    await deliver(FileStore(home).inbox(run_id), message)
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
