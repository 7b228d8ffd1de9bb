"""Tools of the MCP servers that a client hands over: started, asked, called, and ended with the session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyio import BrokenResourceError, ClosedResourceError
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CONNECTION_CLOSED, CallToolResult, TextContent, Tool

from holdfast.agents.builtin.file_access import Refused
from holdfast.agents.builtin.tools import Offer, Outcome, Prepared, capped
from holdfast.core.conversation.own_tools import SERVER as OWN_SERVER
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import around
from holdfast.leaf.process.load import slowness

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

_CRASH, _CRASH_SPAWN = around("builtin.mcp"), around("builtin.mcp.spawn")
_START_SECONDS = 30
_CALL_SECONDS = 600
_UNKNOWN = "It may or may not have had its effect, and it was not made again; look before you repeat it."
_NAME = 64  # characters that every provider takes


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class _Gone(Exception):
    """The server died, or closed its end."""


class _Running:
    """A server's process, and the task that owns it: what a task opened, that task must close."""

    def __init__(self, parameters: StdioServerParameters) -> None:
        self._parameters = parameters
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._answers: MemoryObjectReceiveStream[Any] | None = None
        self._task = asyncio.create_task(self._live())

    async def started(self) -> None:
        async with asyncio.timeout(_START_SECONDS * slowness()):
            await asyncio.shield(self._ready)

    async def stop(self) -> None:
        self._stopping.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def is_gone(self) -> bool:
        """Whoever would ask one that is gone would wait for ever."""
        return self._answers is None or not self._answers.statistics().open_send_streams

    async def tools(self) -> list[Tool]:
        async with asyncio.timeout(_START_SECONDS * slowness()):
            return (await self._ready.result().list_tools()).tools

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return await self._ready.result().call_tool(tool, arguments)
        except (BrokenResourceError, ClosedResourceError) as error:
            raise _Gone from error
        except McpError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise _Gone from error
            raise

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                _CRASH_SPAWN.before()
                self._answers, writing = await stack.enter_async_context(stdio_client(self._parameters))
                _CRASH_SPAWN.after()
                session = await stack.enter_async_context(ClientSession(self._answers, writing))
                await session.initialize()
                self._ready.set_result(session)
                await self._stopping.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(OSError(f"{error!r}"))
                self._ready.exception()  # it may be that nobody asks any more
            if not isinstance(error, Exception):  # any other is how a server ends, which `is_gone` tells
                raise


class _Connection:
    """A server that is started again when it is gone: at the next call, for who lost an answer must look first."""

    def __init__(self, server: Server, parameters: StdioServerParameters) -> None:
        self.name = server.name
        self._parameters = parameters
        self._running: _Running | None = None

    async def tools(self) -> list[Tool]:
        try:
            return await (await self._started()).tools()
        except (OSError, McpError) as error:
            raise BadInput(
                f"the MCP server {self.name} ({self._parameters.command}) did not start: {error!r}"
            ) from error

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            running = await self._started()
        except OSError as error:
            raise Refused(f"the MCP server {self.name} had ended, and did not start again: {error!r}") from error
        _CRASH.before()
        try:
            result = await running.call(tool, arguments)
        except _Gone:
            raise Refused(f"the MCP server {self.name} ended during this call. {_UNKNOWN}") from None
        except TimeoutError:
            late = f"did not answer within {_CALL_SECONDS} s"
            raise Refused(f"the MCP server {self.name} {late}. {_UNKNOWN}") from None
        _CRASH.after()
        return result

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.stop()
            self._running = None

    async def _started(self) -> _Running:
        if self._running is not None and self._running.is_gone:
            await self.stop()
        if self._running is None:
            self._running = _Running(self._parameters)
        await self._running.started()
        return self._running


@dataclass(frozen=True, slots=True)
class _Known:
    server: _Connection
    name: str
    harmless: bool


class McpTools:
    """The servers live from `start` to `stop`."""

    def __init__(self, servers: Sequence[Server], folder: str, environment: Mapping[str, str]) -> None:
        self._servers = [_Connection(server, _parameters(server, folder, environment)) for server in servers]
        self._tools: dict[str, _Known] = {}
        self._offers: list[Offer] = []

    @property
    def offers(self) -> list[Offer]:
        return self._offers

    async def start(self) -> None:
        """Raises BadInput when one of them cannot be used; then none of them is left."""
        try:
            for server in self._servers:
                self._learn(server, await server.tools())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()

    def knows(self, name: str) -> bool:
        return name in self._tools

    def prepare(self, name: str, arguments: object) -> Prepared:
        tool = self._tools[name]
        if not isinstance(arguments, dict):
            raise Refused(f"the arguments of {name} must be an object")
        given: dict[str, Any] = arguments

        async def perform() -> Outcome:
            result = await tool.server.call(tool.name, given)
            parts = [item.text if isinstance(item, TextContent) else f"[{item.type}]" for item in result.content]
            return Outcome(capped("\n".join(parts)) or "[no output]", failed=bool(result.isError))

        return Prepared(f"{name}", "other", perform, asks=not tool.harmless)

    def _learn(self, server: _Connection, tools: list[Tool]) -> None:
        for tool in tools:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server.name}__{tool.name}")[:_NAME]
            reads = bool(tool.annotations and tool.annotations.readOnlyHint)
            harmless = reads or server.name == OWN_SERVER  # a report to Holdfast changes nothing in the worktree
            self._tools[name] = _Known(server, tool.name, harmless)
            self._offers.append(Offer(name, tool.description or tool.name, tool.inputSchema))


def _parameters(server: Server, folder: str, environment: Mapping[str, str]) -> StdioServerParameters:
    return StdioServerParameters(
        command=server.command,
        args=list(server.arguments),
        env={**environment, **server.environment},
        cwd=folder,
    )


def quiet_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What an MCP server gets of ours: where programs are, and the marks by which its processes are found again."""
    kept = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {name: value for name, value in environment.items() if name in kept or name.startswith("HOLDFAST_")}
