"""Answers in the inbox that wait to be applied."""

from contextlib import suppress

import msgspec

from holdfast.core.messages.schema import UserAnswer, try_decode_body
from holdfast.core.state import GivenAnswer, RunState
from holdfast.engine.home import Home
from holdfast.store.base import Message


async def waiting_answers(home: Home, run_id: str, state: RunState) -> dict[str, GivenAnswer]:
    """Answers that were given and not applied yet, by the keys of their requests."""
    found: dict[str, GivenAnswer] = {}
    with suppress(FileNotFoundError):  # another tool's log has no inbox
        messages = [
            Message(id=key, kind=one.kind, sender=one.sender, body=msgspec.Raw(one.body.encode()))
            for key, one in state.messages.items()
        ]
        messages += [
            message async for _, message, _ in home.store.inbox(run_id).read(state.inbox_cursor) if message is not None
        ]
        for message in messages:
            if (given := decode_answer(message)) is not None:
                found.setdefault(given.request, given)
    return found


def decode_answer(message: Message) -> GivenAnswer | None:
    """The answer that a message gives; None when it is none, or cannot be read."""
    given = try_decode_body(message.kind, message.body)
    if not isinstance(given, UserAnswer):
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
