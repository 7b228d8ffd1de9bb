"""What people tell a run: durable in its inbox before they hear that it was taken, whoever owns the run, or nobody."""

import getpass
import secrets
from typing import Any

import msgspec

from holdfast.core.addressing import USER_MESSAGE
from holdfast.leaf.errors import NothingToDo, StorageFailed
from holdfast.store.base import Message
from holdfast.store.files import FileStore

ANSWER, STOP, CHANGE = "answer", "stop", "change"


class Answer(msgspec.Struct, frozen=True):
    """To a question of an agent. Without an option, the first that allows, or that refuses, is taken.

    To a phase that asks for approval: `words` are what is to be changed before it is given.
    """

    request: str
    allow: bool
    option: str | None = None
    words: str | None = None


class StopRequest(msgspec.Struct, frozen=True):
    """For whoever owned the run when it was asked: a sitting that begins later is not meant."""

    epoch: int
    reason: str = "stopped"


class Words(msgspec.Struct, frozen=True):
    """For the agent at work on a task; for whichever is told something next, when none is named."""

    text: str
    task: str | None = None


async def send(home: str, run_id: str, words: Words) -> str:
    return await _put(home, run_id, USER_MESSAGE, words)


async def ask_for_change(home: str, run_id: str, words: Words) -> str:
    """It stays with the run until a plan was made with it, whatever dies."""
    return await _put(home, run_id, CHANGE, words)


async def answer(home: str, run_id: str, given: Answer) -> str:
    return await _put(home, run_id, ANSWER, given)


async def ask_to_stop(home: str, run_id: str) -> str:
    holder = await FileStore(home).holder(run_id)
    if holder is None:
        raise NothingToDo(f"run {run_id} is not at work")
    return await _put(home, run_id, STOP, StopRequest(holder.epoch))


async def _put(home: str, run_id: str, kind: str, body: Any) -> str:
    message = Message(id=secrets.token_hex(12), kind=kind, sender=_who(), body=msgspec.Raw(msgspec.json.encode(body)))
    await deliver(home, run_id, message)
    return message.id


async def deliver(home: str, run_id: str, message: Message) -> None:
    """Durable when this returns. A disk that refuses is asked once more, for the same message: it then comes once."""
    inbox = FileStore(home).inbox(run_id)
    try:
        await inbox.put(message)
    except StorageFailed:
        await inbox.put(message)


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "user"
