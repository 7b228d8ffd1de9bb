"""An agent that says anything at all, heard as a run hears it: pipe, library, scribe, log."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from acp import PROTOCOL_VERSION
from acp.client.connection import ClientSideConnection

from holdfast.agents.client import Asked, ClientSide
from holdfast.agents.frames import Scribe
from holdfast.agents.launch import Launch
from holdfast.agents.terminals import Terminals
from holdfast.agents.transport import Transport
from holdfast.core.events import Event
from tests.fuzz.writing import must_be_writable

_LIMIT = 1024 * 1024


class _Pipe(NamedTuple):
    """Both ends of a process that said all it has to say."""

    stdout: asyncio.StreamReader
    stdin: Any


class _Ear:
    """Takes whatever is written, as a pipe does."""

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")

    async def drain(self) -> None:
        return

    def close(self) -> None:
        return


class _Host:
    """Allows nothing that touches the world."""

    async def permit(self, asked: Asked) -> str | None:
        return asked.options[0][0] if asked.options else None

    async def veto(self, tool: str, kind: str, paths: Sequence[str]) -> str | None:
        return "nobody may"


async def hear(data: bytes) -> list[Event]:
    """All that is written down of it, each event such as a log can hold."""
    heard: list[Event] = []

    async def store(*events: Event) -> None:
        for event in events:
            must_be_writable(event)
        heard.extend(events)

    pipe = _Pipe(asyncio.StreamReader(_LIMIT), _Ear())
    pipe.stdout.feed_data(data)
    pipe.stdout.feed_eof()
    scribe = Scribe("talk", store, lambda *_: None)
    scribe.turn = "turn"

    async def tell(_: str, update: dict[str, Any]) -> None:
        await scribe.update(update)

    tree: Any = pipe
    transport = Transport(tree, tell, scribe.odd)
    launch = Launch(command=("true",), cwd="/nowhere", environment={}, mark="talk", stderr=None)
    client: Any = ClientSide("/nowhere", _Host(), Terminals(launch), scribe.begun)
    connection = ClientSideConnection(client, transport)
    asked = asyncio.ensure_future(connection.initialize(PROTOCOL_VERSION))
    await asyncio.wait({asked}, timeout=10)
    assert asked.done(), "it hangs"
    asked.exception()
    await connection.close()
    if transport.failure is not None:
        raise transport.failure
    await store(*scribe.cut_off())
    return heard
