"""Answers in the inbox: their form, and those that wait to be applied."""

from contextlib import suppress

import msgspec

from holdfast.core.log.codec import UNREADABLE
from holdfast.core.state import GivenAnswer, RunState
from holdfast.store.base import Message
from holdfast.store.files.store import FileStore

ANSWER = "answer"


class Answer(msgspec.Struct, frozen=True):
    """To a permission request. Without an option, the first that allows, or that refuses, is taken.

    To a phase that asks for approval: `changes` are what is to be changed before it is given. `reason` is for the agent
    whose request is denied, or says why a phase is.
    """

    request: str
    allow: bool
    option: str | None = None
    changes: str | None = msgspec.field(default=None, name="words")
    reason: str | None = None
    at: str | None = None
    token: str | None = None  # tells two answers apart that are the same otherwise


async def waiting_answers(home: str, run_id: str, state: RunState) -> dict[str, GivenAnswer]:
    """Answers that were given and not applied yet, by the keys of their requests."""
    found: dict[str, GivenAnswer] = {}
    with suppress(FileNotFoundError):  # another tool's log has no inbox
        messages = [
            Message(id=key, kind=one.kind, sender=one.sender, body=msgspec.Raw(one.body.encode()))
            for key, one in state.messages.items()
        ]
        messages += [
            message
            async for _, message, _ in FileStore(home).inbox(run_id).read(state.inbox_cursor)
            if message is not None
        ]
        for message in messages:
            if message.kind == ANSWER and (given := _read(message)) is not None:
                found.setdefault(given.request, given)
    return found


def _read(message: Message) -> GivenAnswer | None:
    try:
        given = msgspec.json.decode(message.body, type=Answer)
    except UNREADABLE:
        return None
    return GivenAnswer(
        given.request,
        "",
        given.allow,
        message.sender,
        given.at,
        given.option,
        given.reason,
        given.changes,
    )
