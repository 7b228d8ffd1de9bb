"""A client of stdio MCP servers, for scripts that call tools.

Written out here because loading the protocol's SDK would be most of the agent's CPU. The tests run it against servers
of the SDK.
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

_PROTOCOL_VERSION = "2025-06-18"
_METHOD_NOT_FOUND = -32601
_MAX_LINE_BYTES = 64 * 1024 * 1024
_EXIT_WAIT_S = 2.0  # from the end of its input until a server is killed


class McpServerExited(Exception):
    """The server ended before it answered."""


class McpRequestFailed(Exception):
    """The server answered with an error."""


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
        self._request_ids = itertools.count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

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
            await client._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
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
        except McpRequestFailed as error:
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
        self._reading.cancel()

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        if self._reading.done():
            raise McpServerExited("the MCP server is gone")
        number = next(self._request_ids)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await answer
        finally:
            del self._pending[number]

    async def _send(self, frame: dict[str, Any]) -> None:
        try:
            self._stdin.write(msgspec.json.encode(frame) + b"\n")
            await self._stdin.drain()
        except (OSError, RuntimeError) as error:
            raise McpServerExited(f"the MCP server takes no more: {error}") from error

    async def _read(self) -> None:
        try:
            while line := await self._stdout.readline():
                with suppress(msgspec.DecodeError):  # a line that is no JSON is a server's own chatter
                    await self._handle(msgspec.json.decode(line))
        except (OSError, ValueError, McpServerExited):
            pass  # a line beyond the limit, or a pipe that broke: handled as the end
        finally:
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(McpServerExited("Connection closed"))

    async def _handle(self, frame: Any) -> None:
        if not isinstance(frame, dict):
            return
        if "method" in frame:
            if "id" in frame:  # a request of the server's: only its ping has an answer here
                await self._send({"jsonrpc": "2.0", "id": frame["id"], **_answer_server(frame["method"])})
            return
        answer = self._pending.get(frame.get("id"))  # type: ignore[arg-type]  # whatever the server sent
        if answer is None or answer.done():
            return
        error = frame.get("error")
        if isinstance(error, dict):
            answer.set_exception(McpRequestFailed(str(error.get("message", "error"))))
        else:
            answer.set_result(frame.get("result") or {})


def _answer_server(method: object) -> dict[str, Any]:
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": _METHOD_NOT_FOUND, "message": f"there is no method {method!r}"}}
