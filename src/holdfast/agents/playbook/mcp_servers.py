"""The MCP servers that the client handed over: started when first needed, or when a session is opened."""

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from typing import Any, Protocol

from holdfast.agents.playbook.mcp_client import McpCallResult, McpServerExited, StdioMcpClient

_INSTALL_HINT = "MCP servers over HTTP need the MCP library: pip install 'holdfast[builtin]'"
_STOP_WAIT_S = 5.0  # seconds for a server to end, before the agent ends without waiting
_LOOK = 0.02  # seconds between two looks for a file
_STARTS = 10  # of one server, for one call: a script may kill it several times


class NoMcpServer(Exception):
    pass


class McpClient(Protocol):
    async def list_tools(self) -> list[str]: ...

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> McpCallResult:
        """Raises `McpServerExited` when the server ended before it answered."""
        ...


class _Server:
    """A server and the task that owns its process: what a task opened, that task must close."""

    def __init__(self, config: dict[str, Any], cwd: str) -> None:
        self._config = config
        self._cwd = cwd
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[McpClient] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    async def client(self) -> McpClient:
        return await asyncio.shield(self._ready)

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.wait({self._task}, timeout=_STOP_WAIT_S)
        self._task.cancel()

    async def _run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._ready.set_result(await self._open(stack))
                await self._stopping.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(
                    NoMcpServer(f"the MCP server {self._config.get('name')} did not start: {error}")
                )
                self._ready.exception()  # no caller may be waiting any more
            if not isinstance(error, Exception):
                raise

    async def _open(self, stack: AsyncExitStack) -> McpClient:
        config = self._config
        if config.get("type") == "http":
            try:  # the optional extra; it takes a second to load
                from holdfast.agents.playbook.mcp_http import open_http_client  # noqa: PLC0415
            except ImportError as error:
                raise NoMcpServer(f"{_INSTALL_HINT} ({error})") from error
            return await stack.enter_async_context(open_http_client(config))
        environment = {**os.environ, **{entry["name"]: entry["value"] for entry in config.get("env") or []}}
        client = await StdioMcpClient.start(config["command"], config.get("args") or [], environment, self._cwd)
        stack.push_async_callback(client.stop)
        return client


class McpServers:
    def __init__(self, configs: list[dict[str, Any]], cwd: str) -> None:
        self._configs = {str(config.get("name")): config for config in configs}
        self._cwd = cwd
        self._running: dict[str, _Server] = {}
        self._connecting: asyncio.Task[None] | None = None
        self.offered = True  # whether a turn that begins now has their tools

    def connect(self, wait_for: str | None) -> None:
        """Start all of them in the background. Until they have listed their tools, there are none."""
        self.offered = False
        self._connecting = asyncio.create_task(self._connect(wait_for))

    async def _connect(self, wait_for: str | None) -> None:
        while wait_for is not None and not os.path.exists(wait_for):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(_LOOK)
        with suppress(NoMcpServer):  # then its tools are never there
            for name in self._configs:
                await self.list_tools(name)
            self.offered = True

    async def call(self, server: str | None, tool: str, arguments: dict[str, Any]) -> McpCallResult:
        """The answer of the server. A killed server is started and called again, a bounded number of times.

        A killed server says nothing about the work, so it must not fail the turn. The call may reach the server twice.
        """
        for _ in range(_STARTS - 1):
            try:
                return await self._call_once(server, tool, arguments)
            except McpServerExited:
                continue
        try:
            return await self._call_once(server, tool, arguments)
        except McpServerExited as error:
            return McpCallResult(str(error), True)

    async def _call_once(self, server: str | None, tool: str, arguments: dict[str, Any]) -> McpCallResult:
        client = await self._client(server)
        try:
            return await client.call_tool(tool, arguments)
        except McpServerExited:
            await self._drop(server)
            raise

    async def list_tools(self, server: str | None) -> list[str]:
        return await (await self._client(server)).list_tools()

    def _server_name(self, name: str | None) -> str:
        """The named server, or the only or first one."""
        server_name = name if name is not None else next(iter(self._configs), None)
        if server_name is None or server_name not in self._configs:
            there = ", ".join(self._configs) or "none"
            raise NoMcpServer(f"the client gave no MCP server {name or 'at all'}; it gave: {there}")
        return server_name

    async def _client(self, name: str | None) -> McpClient:
        server_name = self._server_name(name)
        if server_name not in self._running:
            self._running[server_name] = _Server(self._configs[server_name], self._cwd)
        try:
            return await self._running[server_name].client()
        except NoMcpServer:
            await self._drop(server_name)  # the next call starts another
            raise

    async def _drop(self, name: str | None) -> None:
        server = self._running.pop(self._server_name(name), None)
        if server is not None:  # else another call forgot it first
            await server.stop()

    async def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        for server in self._running.values():
            await server.stop()
        self._running.clear()
