"""Serves the tools of all agents of a session, on a unix socket: the agents' MCP servers are relays to it (`relay`).

A report is durable before it is acknowledged, as by the complete server (`holdfast mcp`), and a relay becomes that one
when this process dies. Confined agents cannot reach the socket: they start the complete server, with a report file.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import msgspec

from holdfast.engine.agents.listing_file import announce_tools
from holdfast.engine.live_socket import ListeningSocket, is_trusted_peer, listen
from holdfast.engine.reports.protocol import ARRIVAL_S, ToolCall, ToolProtocol, encode_frame, report_id, run_call
from holdfast.engine.reports.submit import MessageId, Reporter, submit_report

_RELAY = os.path.join(os.path.dirname(__file__), "relay.py")
_PURPOSE = ".reports"
_CHUNK_BYTES = 1 << 16
_NOT_ANSWERED = b"\n"


class _Header(msgspec.Struct, frozen=True):
    """Who reports, and the file in which the list of tools is announced."""

    conversation: str
    listed: str


class ReportServer:
    """A context for one session of a run. Where no socket can be bound, every agent starts the complete server."""

    def __init__(self, run_folder: str, reporter: Callable[[str], Reporter]) -> None:
        self._run_folder = run_folder
        self._reporter = reporter
        self._listening: ListeningSocket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._listening = listen(self._run_folder, _PURPOSE)
        if self._listening is not None:
            self._loop.add_reader(self._listening.socket, self._accept, self._listening.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening.socket)
            self._listening.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def relay_command(self, conversation_id: str, listed: str, command: Sequence[str]) -> Sequence[str]:
        """The command of an MCP server that uses this process; `command` is the complete server's."""
        path = self._listening.path if self._listening is not None else None
        if path is None:
            return command
        header = msgspec.json.encode(_Header(conversation_id, listed)).decode()
        return (sys.executable, "-I", "-S", _RELAY, path, header, *command)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            if not is_trusted_peer(connection):
                connection.close()
                return
            connection.setblocking(False)
            task = asyncio.create_task(self._serve(connection), name="reports of an agent")
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, msgspec.DecodeError):  # the agent or its relay was killed, or it is no relay
            lines = _read_lines(connection)
            prefix, _, header = (await anext(lines, b"")).partition(b" ")
            agent = _Agent(prefix.decode("ascii", "replace"), msgspec.json.decode(header, type=_Header))
            number = 0
            async for line in lines:
                await self._loop.sock_sendall(connection, await self._answer(agent, number, line))
                number += 1

    async def _answer(self, agent: "_Agent", number: int, line: bytes) -> bytes:
        """One line for each line, so that the relay need not read them."""
        reporter = self._reporter(agent.header.conversation)

        async def submit(tool: str, arguments: Mapping[str, Any]) -> str:
            return await submit_report(reporter, tool, arguments, MessageId(report_id(agent.prefix, number)))

        def announce_later() -> None:
            self._loop.call_later(ARRIVAL_S, announce_tools, agent.header.listed)

        found = ToolProtocol(reporter.role, announce_later).read_line(line)
        if found is None:
            return _NOT_ANSWERED
        return encode_frame(await run_call(found, submit) if isinstance(found, ToolCall) else found)


class _Agent(NamedTuple):
    prefix: str  # of the ids of its messages
    header: _Header


async def _read_lines(connection: socket.socket) -> AsyncIterator[bytes]:
    """Lines without their ends. The last one counts only when it is complete."""
    loop, parts = asyncio.get_running_loop(), list[bytes]()
    while data := await loop.sock_recv(connection, _CHUNK_BYTES):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield b"".join((*parts, end))
            parts = []
        parts.append(rest)
