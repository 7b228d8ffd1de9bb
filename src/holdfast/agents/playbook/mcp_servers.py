"""The MCP servers that the client handed over: real ones, spoken to by the real SDK.

They are started when first needed, or when a session is opened.
"""

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # at run time only when a script calls a tool: the SDK takes a second to load
    from mcp import ClientSession

_GOODBYE = 5.0  # seconds for a server to end, before the agent ends without waiting
_LOOK = 0.02  # seconds between two looks for a file
_STARTS = 10  # of one server, for one call: whoever kills servers kills several


class NoServer(Exception):
    pass


class _ServerGone(Exception):
    """The server ended before it answered."""


class Called(NamedTuple):
    text: str
    is_error: bool


class _Server:
    """A server and the task that owns its process: what a task opened, that task must close."""

    def __init__(self, given: dict[str, Any], cwd: str) -> None:
        self._given = given
        self._cwd = cwd
        self._leave = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own())

    async def session(self) -> "ClientSession":
        return await asyncio.shield(self._ready)

    async def stop(self) -> None:
        self._leave.set()
        await asyncio.wait({self._task}, timeout=_GOODBYE)
        self._task.cancel()

    async def _own(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                self._ready.set_result(await self._open(stack))
                await self._leave.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(NoServer(f"the MCP server {self._given.get('name')} did not start: {error}"))
                self._ready.exception()  # it may be that nobody asks any more
            if not isinstance(error, Exception):
                raise

    async def _open(self, stack: AsyncExitStack) -> "ClientSession":
        from mcp import ClientSession, StdioServerParameters  # noqa: PLC0415 - see above
        from mcp.client.stdio import stdio_client  # noqa: PLC0415

        given = self._given
        if given.get("type") == "http":
            from mcp.client.streamable_http import streamablehttp_client  # noqa: PLC0415

            headers = {one["name"]: one["value"] for one in given.get("headers", [])}
            read, write, _ = await stack.enter_async_context(streamablehttp_client(given["url"], headers=headers))
        else:
            env = {**os.environ, **{one["name"]: one["value"] for one in given.get("env") or []}}
            parameters = StdioServerParameters(
                command=given["command"], args=given.get("args") or [], env=env, cwd=self._cwd
            )
            read, write = await stack.enter_async_context(stdio_client(parameters))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        return session


class McpServers:
    def __init__(self, given: list[dict[str, Any]], cwd: str) -> None:
        self._given = {str(one.get("name")): one for one in given}
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
        with suppress(NoServer):  # then its tools are never there
            for name in self._given:
                await self.tools(name)
            self.offered = True

    async def call(self, server: str | None, tool: str, arguments: dict[str, Any]) -> Called:
        """The answer of the server. A killed server is started and called again, a bounded number of times.

        A killed server says nothing about the work, so it must not fail the turn. The call may reach the server twice.
        """
        for _ in range(_STARTS - 1):
            try:
                return await self._call_once(server, tool, arguments)
            except _ServerGone:
                continue
        try:
            return await self._call_once(server, tool, arguments)
        except _ServerGone as error:
            return Called(str(error), True)

    async def _call_once(self, server: str | None, tool: str, arguments: dict[str, Any]) -> Called:
        session = await self._session(server)
        from anyio import BrokenResourceError, ClosedResourceError  # noqa: PLC0415 - loaded by now
        from mcp import McpError  # noqa: PLC0415
        from mcp.types import CONNECTION_CLOSED  # noqa: PLC0415

        try:
            answer = await session.call_tool(tool, arguments)
        except McpError as error:
            if error.error.code != CONNECTION_CLOSED:
                return Called(str(error), True)
            await self._forget(server)
            raise _ServerGone(str(error)) from None
        except (BrokenResourceError, ClosedResourceError):
            await self._forget(server)
            raise _ServerGone("the MCP server is gone") from None
        return Called("\n".join(str(getattr(part, "text", part.type)) for part in answer.content), answer.isError)

    async def tools(self, server: str | None) -> list[str]:
        return sorted(tool.name for tool in (await (await self._session(server)).list_tools()).tools)

    def _meant(self, name: str | None) -> str:
        """The named server, or the only or first one."""
        wanted = name if name is not None else next(iter(self._given), None)
        if wanted is None or wanted not in self._given:
            there = ", ".join(self._given) or "none"
            raise NoServer(f"the client gave no MCP server {name or 'at all'}; it gave: {there}")
        return wanted

    async def _session(self, name: str | None) -> "ClientSession":
        wanted = self._meant(name)
        if wanted not in self._running:
            self._running[wanted] = _Server(self._given[wanted], self._cwd)
        try:
            return await self._running[wanted].session()
        except NoServer:
            await self._forget(wanted)  # the next call starts another
            raise

    async def _forget(self, name: str | None) -> None:
        gone = self._running.pop(self._meant(name), None)
        if gone is not None:  # else another call forgot it first
            await gone.stop()

    async def stop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        for server in self._running.values():
            await server.stop()
        self._running.clear()
