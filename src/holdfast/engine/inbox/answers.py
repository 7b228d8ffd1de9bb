"""The answers in the inbox that are not applied yet."""

from contextlib import suppress

import msgspec

from holdfast.core.messages.schema import UserAnswer, try_decode_body
from holdfast.core.state import GivenAnswer, RunState
from holdfast.engine.home import Home
from holdfast.store.base import Message


async def waiting_answers(home: Home, run_id: str, state: RunState) -> dict[str, GivenAnswer]:
    """Return answers that were given and not applied yet, by request key."""
    found: dict[str, GivenAnswer] = {}
    with suppress(FileNotFoundError):  # a log of another tool has no inbox
        messages = [
            Message(
                id=key, kind=open_message.kind, sender=open_message.sender, body=msgspec.Raw(open_message.body.encode())
            )
            for key, open_message in state.messages.items()
        ]
        messages += [
            message async for _, message, _ in home.store.inbox(run_id).read(state.inbox_cursor) if message is not None
        ]
        for message in messages:
            if (given := decode_answer(message)) is not None:
                found.setdefault(given.request, given)
    return found


def decode_answer(message: Message) -> GivenAnswer | None:
    """Return the answer in a message; None if it has none, or cannot be read."""
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
