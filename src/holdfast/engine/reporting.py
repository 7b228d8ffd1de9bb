"""Taking in what agents report: checked, then durable in the run's inbox, and only then acknowledged."""

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.signals import Signal, read_signal, schema_of, tools_of
from holdfast.engine.naming import find_run
from holdfast.store.base import Message
from holdfast.store.files import FileStore

SIGNAL = "signal."  # what the kind of such a message begins with


class Reporter(NamedTuple):
    """Who reports, and to which run."""

    home: str
    run_id: str
    role: str
    conversation: str | None = None


class Tool(NamedTuple):
    name: str
    about: str
    schema: dict[str, Any]


def reporter(home: str, run: str, role: str, conversation: str | None) -> Reporter:
    return Reporter(home, find_run(home, run), role, conversation)


def tools_for(role: str) -> list[Tool]:
    return [Tool(kind.tool, kind.about, schema_of(kind)) for kind in tools_of(role)]


async def report(who: Reporter, tool: str, arguments: Mapping[str, Any]) -> Signal:
    """Store one signal. `BadInput` says what is wrong with it, and then nothing was stored."""
    signal = read_signal(who.role, tool, arguments)
    body = {"role": who.role, "conversation": who.conversation, "signal": signal}
    message = Message(
        id=secrets.token_hex(12),
        kind=f"{SIGNAL}{tool}",
        sender=who.conversation or who.role,
        body=msgspec.Raw(msgspec.json.encode(body)),
    )
    await FileStore(who.home).inbox(who.run_id).put(message)
    return signal
