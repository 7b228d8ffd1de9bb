"""A stdio MCP server with the tools of one role. A call is answered when its report is durable.

Every agent starts one, so it is written out here: loading the protocol's SDK would cost each agent most of a second of
CPU and 45 MB. It handles one message after the other and loads what stores a report only when there is one. The tests
drive it with the SDK's client.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast import __version__
from holdfast.core.messages.signals import schema_of, signals_for_role
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_FAILPOINT = failpoint_pair("mcp.call")
_ARRIVAL_S = 0.2  # from our answer until the agent has read it
_CHUNK_BYTES = 1 << 16
_STDIN_FD, _STDOUT_FD = 0, 1

SubmitReport = Callable[[str, Mapping[str, Any]], str]


class _RequestRefused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer(NamedTuple):
    """`submit` stores a report and returns the acknowledgement; `on_listed` runs once the agent has read the tools."""

    role: str
    submit: SubmitReport
    on_listed: Callable[[], None]

    def serve(self) -> None:
        """Blocks until stdin ends."""
        for line in _read_lines():
            answer = self.answer_line(line)
            if answer is not None:
                _write_all(msgspec.json.encode(answer) + b"\n")

    def answer_line(self, line: bytes) -> dict[str, Any] | None:
        """The frame to send back; None for a notification, or for an answer to a request that we never make."""
        try:
            frame = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error_frame(None, _PARSE_ERROR, f"not JSON: {error}")
        if not isinstance(frame, dict):
            return _error_frame(None, _INVALID_REQUEST, "not an object")
        request_id, method = frame.get("id"), frame.get("method")
        if method is None or "id" not in frame:
            return None
        if type(request_id) not in (int, str):
            return _error_frame(None, _INVALID_REQUEST, "the id is neither a number nor a text")
        try:
            result = self._answer(method, frame.get("params") or {})
        except _RequestRefused as error:
            return _error_frame(request_id, error.code, str(error))
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    def _answer(self, method: object, params: object) -> dict[str, Any]:
        if not isinstance(params, dict):
            raise _RequestRefused(_INVALID_PARAMS, "the parameters are not an object")
        match method:
            case "initialize":
                requested = params.get("protocolVersion")
                return {
                    "protocolVersion": requested if requested in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
                    "capabilities": {"tools": {"listChanged": False}},
                    "serverInfo": {"name": "holdfast", "version": __version__},
                }
            case "ping":
                return {}
            case "tools/list":
                _start_timer(_ARRIVAL_S, self.on_listed)
                return {
                    "tools": [
                        {"name": kind.tool, "description": kind.about, "inputSchema": schema_of(kind)}
                        for kind in signals_for_role(self.role)
                    ]
                }
            case "tools/call":
                return self._call_tool(params)
        raise _RequestRefused(_METHOD_NOT_FOUND, f"there is no method {method!r}")

    def _call_tool(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise _RequestRefused(_INVALID_PARAMS, "a call has a `name` and an object `arguments`")
        try:
            _FAILPOINT.before()
            text, failed = self.submit(name, arguments or {}), False
        except HoldfastError as error:
            text, failed = str(error), True
        _FAILPOINT.after()
        return {"content": [{"type": "text", "text": _replace_surrogates(text)}], "isError": failed}


def _error_frame(request_id: int | str | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": _replace_surrogates(message)}}


def _replace_surrogates(text: str) -> str:
    """A message may quote half a character of what the agent sent, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _start_timer(seconds: float, action: Callable[[], None]) -> None:
    """A timer that does not keep the process alive."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def _read_lines() -> Iterator[bytes]:
    """Lines of stdin that are not blank. The last one counts only when it is complete."""
    parts: list[bytes] = []
    while data := os.read(_STDIN_FD, _CHUNK_BYTES):
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts = []
            if line.strip():
                yield line
        parts.append(rest)


def _write_all(data: bytes) -> None:
    """A client that has closed its end gets no answer; the end of stdin then ends the server."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(_STDOUT_FD, rest) :]
        except BrokenPipeError:
            return
