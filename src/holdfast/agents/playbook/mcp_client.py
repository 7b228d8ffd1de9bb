"""A client of stdio MCP servers, for scripts that call tools.

Written out here because loading the protocol's SDK would be most of the agent's CPU. The tests run it against servers
of the SDK.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from holdfast.agents.jsonrpc.connection import METHOD_NOT_FOUND_CODE, JsonRpcConnection, JsonRpcError

_PROTOCOL_VERSION = "2025-06-18"
_MAX_LINE_BYTES = 64 * 1024 * 1024
_EXIT_WAIT_S = 2.0  # from the end of its input until a server is killed


class McpServerExited(Exception):
    """The server ended before it answered."""


class McpCallResult(NamedTuple):
    text: str
    is_error: bool


class StdioMcpClient:
    """A running server. Use `start`, and `stop` when done."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._connection = JsonRpcConnection(_answer_server, self._send)
        self._serving = asyncio.create_task(self._connection.serve(self._receive, McpServerExited("Connection closed")))

    @classmethod
    async def start(
        cls, command: str, arguments: Sequence[str], environment: Mapping[str, str], cwd: str
    ) -> "StdioMcpClient":
        process = await asyncio.create_subprocess_exec(
            command,
            *arguments,
            env=environment,
            cwd=cwd,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
        client = cls(process)
        try:
            about = {"name": "holdfast-playbook", "version": "1"}
            hello = {"protocolVersion": _PROTOCOL_VERSION, "capabilities": {}, "clientInfo": about}
            await client._request("initialize", hello)
            await client._connection.notify("notifications/initialized", {})
        except BaseException:
            await client.stop()
            raise
        return client

    async def list_tools(self) -> list[str]:
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
            names += [tool["name"] for tool in page["tools"]]
            cursor = page.get("nextCursor")
            if not cursor:
                return sorted(names)

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> McpCallResult:
        try:
            answer = await self._request("tools/call", {"name": tool, "arguments": arguments})
        except JsonRpcError as error:
            return McpCallResult(str(error), True)
        parts = [str(part.get("text", part.get("type"))) for part in answer.get("content", ())]
        return McpCallResult("\n".join(parts), bool(answer.get("isError")))

    async def stop(self) -> None:
        self._stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _EXIT_WAIT_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._serving.cancel()
        await self._connection.stop()

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self._connection.request(method, params) or {}

    async def _send(self, frame: dict[str, Any]) -> None:
        try:
            self._stdin.write(msgspec.json.encode(frame) + b"\n")
            await self._stdin.drain()
        except (OSError, RuntimeError) as error:
            raise McpServerExited(f"the MCP server accepts no more input: {error}") from error

    async def _receive(self) -> dict[str, Any] | None:
        try:
            while line := await self._stdout.readline():
                with suppress(msgspec.DecodeError):  # some servers print text to stdout
                    frame = msgspec.json.decode(line)
                    if isinstance(frame, dict):
                        return frame
        except (OSError, ValueError):
            pass  # a line beyond the limit, or a broken pipe: handled as the end
        return None


async def _answer_server(method: str, _: Any, request_id: Any) -> dict[str, Any]:
    if method != "ping" and request_id is not None:
        raise JsonRpcError(METHOD_NOT_FOUND_CODE, f"there is no method {method!r}")
    return {}
