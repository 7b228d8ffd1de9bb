"""Tools of the MCP servers that a client hands over: started, asked, called, and ended with the session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from holdfast.agents.builtin.confinement import Refused
from holdfast.agents.builtin.tools import Offer, Outcome, Prepared, capped
from holdfast.leaf.crashing import around
from holdfast.leaf.errors import BadInput

_CRASH, _CRASH_SPAWN = around("builtin.mcp"), around("builtin.mcp.spawn")
_START_SECONDS = 30
_CALL_SECONDS = 600
_NAME = 64  # characters that every provider takes


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Tool:
    session: ClientSession
    name: str
    harmless: bool


class McpTools:
    """The servers live inside one task, from `start` to `stop`."""

    def __init__(self, servers: Sequence[Server], folder: str, environment: Mapping[str, str]) -> None:
        self._servers = servers
        self._folder = folder
        self._environment = environment
        self._tools: dict[str, _Tool] = {}
        self._offers: list[Offer] = []
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def offers(self) -> list[Offer]:
        return self._offers

    async def start(self) -> None:
        if not self._servers:
            return
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(self._ready))
        await self._ready

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def knows(self, name: str) -> bool:
        return name in self._tools

    def prepare(self, name: str, arguments: object) -> Prepared:
        tool = self._tools[name]
        if not isinstance(arguments, dict):
            raise Refused(f"the arguments of {name} must be an object")
        given: dict[str, Any] = arguments

        async def perform() -> Outcome:
            _CRASH.before()
            async with asyncio.timeout(_CALL_SECONDS):
                result = await tool.session.call_tool(tool.name, given)
            _CRASH.after()
            parts = [item.text if isinstance(item, TextContent) else f"[{item.type}]" for item in result.content]
            return Outcome(capped("\n".join(parts)) or "[no output]", failed=bool(result.isError))

        return Prepared(f"{name}", "other", perform, asks=not tool.harmless)

    async def _live(self, ready: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                for server in self._servers:
                    await self._enter(stack, server)
                ready.set_result(None)
                await self._stopping.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error if isinstance(error, BadInput) else BadInput(f"an MCP server failed: {error}"))

    async def _enter(self, stack: AsyncExitStack, server: Server) -> None:
        parameters = StdioServerParameters(
            command=server.command,
            args=list(server.arguments),
            env={**self._environment, **server.environment},
            cwd=self._folder,
        )
        _CRASH_SPAWN.before()
        try:
            async with asyncio.timeout(_START_SECONDS):
                reading, writing = await stack.enter_async_context(stdio_client(parameters))
                _CRASH_SPAWN.after()
                session = await stack.enter_async_context(ClientSession(reading, writing))
                await session.initialize()
                listed = (await session.list_tools()).tools
        except (OSError, TimeoutError) as error:
            raise BadInput(f"the MCP server {server.name} ({server.command}) did not start: {error!r}") from error
        for tool in listed:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server.name}__{tool.name}")[:_NAME]
            harmless = bool(tool.annotations and tool.annotations.readOnlyHint)
            self._tools[name] = _Tool(session, tool.name, harmless)
            self._offers.append(Offer(name, tool.description or tool.name, tool.inputSchema))


def quiet_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What an MCP server gets of ours: where programs are, and the marks by which its processes are found again."""
    kept = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {name: value for name, value in environment.items() if name in kept or name.startswith("HOLDFAST_")}
