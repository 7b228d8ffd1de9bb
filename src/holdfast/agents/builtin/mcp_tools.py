"""Runs the MCP servers that a client configures: starts them, lists and calls their tools, stops them at the end."""

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

from holdfast.agents.builtin.file_access import ToolRefused
from holdfast.agents.builtin.tools import PreparedCall, ToolOutcome, ToolSpec, cap_text
from holdfast.core.conversation.own_tools import SERVER as OWN_SERVER
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.process.load import load_factor

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream

_FAILPOINT_CALL, _FAILPOINT_SPAWN = failpoint_pair("builtin.mcp"), failpoint_pair("builtin.mcp.spawn")
_START_SECONDS = 30
_CALL_SECONDS = 600
_UNKNOWN_EFFECT = "It may or may not have had its effect, and it was not made again; look before you repeat it."
_MAX_NAME_CHARS = 64  # every provider accepts that many


@dataclass(frozen=True, slots=True)
class McpServerCommand:
    name: str
    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class _ServerGone(Exception):
    """The server died or closed its end."""


class _RunningServer:
    """A server's process, and the task that owns it: the task that opened it must close it."""

    def __init__(self, parameters: StdioServerParameters) -> None:
        self._parameters = parameters
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._responses: MemoryObjectReceiveStream[Any] | None = None
        self._task = asyncio.create_task(self._run())

    async def wait_started(self) -> None:
        async with asyncio.timeout(_START_SECONDS * load_factor()):
            await asyncio.shield(self._ready)

    async def stop(self) -> None:
        self._stopping.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def is_gone(self) -> bool:
        """True if the server has ended; a request to it would never return."""
        return self._responses is None or not self._responses.statistics().open_send_streams

    async def list_tools(self) -> list[Tool]:
        async with asyncio.timeout(_START_SECONDS * load_factor()):
            return (await self._ready.result().list_tools()).tools

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                return await self._ready.result().call_tool(tool, arguments)
        except (BrokenResourceError, ClosedResourceError) as error:
            raise _ServerGone from error
        except McpError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise _ServerGone from error
            raise

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                _FAILPOINT_SPAWN.before()
                self._responses, writing = await stack.enter_async_context(stdio_client(self._parameters))
                _FAILPOINT_SPAWN.after()
                session = await stack.enter_async_context(ClientSession(self._responses, writing))
                await session.initialize()
                self._ready.set_result(session)
                await self._stopping.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(OSError(f"{error!r}"))
                self._ready.exception()  # no caller may be waiting any more
            # other exceptions are normal ends of a server, which `is_gone` reports
            if not isinstance(error, Exception):
                raise


class _Connection:
    """A server that is restarted at the next call after it ended: the caller that lost an answer must check first."""

    def __init__(self, server: McpServerCommand, parameters: StdioServerParameters) -> None:
        self.name = server.name
        self._parameters = parameters
        self._running: _RunningServer | None = None

    async def list_tools(self) -> list[Tool]:
        try:
            return await (await self._ensure_started()).list_tools()
        except (OSError, McpError) as error:
            raise BadInput(
                f"the MCP server {self.name} ({self._parameters.command}) did not start: {error!r}"
            ) from error

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            running = await self._ensure_started()
        except OSError as error:
            raise ToolRefused(f"the MCP server {self.name} had ended, and did not start again: {error!r}") from error
        _FAILPOINT_CALL.before()
        try:
            result = await running.call(tool, arguments)
        except _ServerGone:
            raise ToolRefused(f"the MCP server {self.name} ended during this call. {_UNKNOWN_EFFECT}") from None
        except TimeoutError:
            late = f"did not answer within {_CALL_SECONDS} s"
            raise ToolRefused(f"the MCP server {self.name} {late}. {_UNKNOWN_EFFECT}") from None
        _FAILPOINT_CALL.after()
        return result

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.stop()
            self._running = None

    async def _ensure_started(self) -> _RunningServer:
        if self._running is not None and self._running.is_gone:
            await self.stop()
        if self._running is None:
            self._running = _RunningServer(self._parameters)
        await self._running.wait_started()
        return self._running


@dataclass(frozen=True, slots=True)
class _KnownTool:
    server: _Connection
    name: str
    is_read_only: bool


class McpToolset:
    """The servers run from `start` to `stop`."""

    def __init__(self, servers: Sequence[McpServerCommand], folder: str, environment: Mapping[str, str]) -> None:
        self._servers = [_Connection(server, _server_parameters(server, folder, environment)) for server in servers]
        self._tools: dict[str, _KnownTool] = {}
        self._specs: list[ToolSpec] = []

    @property
    def specs(self) -> list[ToolSpec]:
        return self._specs

    async def start(self) -> None:
        """Start all servers. Raises `BadInput` if one cannot be used; then none keeps running."""
        try:
            for server in self._servers:
                self._add_tools(server, await server.list_tools())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()

    def has_tool(self, name: str) -> bool:
        return name in self._tools

    def prepare(self, name: str, arguments: object) -> PreparedCall:
        tool = self._tools[name]
        if not isinstance(arguments, dict):
            raise ToolRefused(f"the arguments of {name} must be an object")
        given: dict[str, Any] = arguments

        async def perform() -> ToolOutcome:
            result = await tool.server.call(tool.name, given)
            parts = [item.text if isinstance(item, TextContent) else f"[{item.type}]" for item in result.content]
            return ToolOutcome(cap_text("\n".join(parts)) or "[no output]", failed=bool(result.isError))

        return PreparedCall(f"{name}", "other", perform, needs_permission=not tool.is_read_only)

    def _add_tools(self, server: _Connection, tools: list[Tool]) -> None:
        for tool in tools:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server.name}__{tool.name}")[:_MAX_NAME_CHARS]
            reads = bool(tool.annotations and tool.annotations.readOnlyHint)
            harmless = reads or server.name == OWN_SERVER  # a report to Holdfast changes nothing in the worktree
            self._tools[name] = _KnownTool(server, tool.name, harmless)
            self._specs.append(ToolSpec(name, tool.description or tool.name, tool.inputSchema))


def _server_parameters(server: McpServerCommand, folder: str, environment: Mapping[str, str]) -> StdioServerParameters:
    return StdioServerParameters(
        command=server.command,
        args=list(server.arguments),
        env={**environment, **server.environment},
        cwd=folder,
    )


def mcp_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an MCP server: program paths, and the markers that identify its processes."""
    kept = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {name: value for name, value in environment.items() if name in kept or name.startswith("HOLDFAST_")}
