"""The part of the Model Context Protocol with which an agent reports: the tools of one role, a JSON frame a line.

Every agent needs it, so it is written out here: loading the protocol's SDK would cost most of a second of CPU and
45 MB. The tests drive it with the SDK's client.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast import __version__
from holdfast.core.messages.signals import schema_of, signals_for_role
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import failpoint_pair

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # newest first
ARRIVAL_S = 0.2  # from our answer until the agent has read it
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_FAILPOINT = failpoint_pair("mcp.call")

Frame = dict[str, Any]
SubmitReport = Callable[[str, Mapping[str, Any]], Awaitable[str]]


class ToolCall(NamedTuple):
    """A request that is answered when its report is durable."""

    request_id: int | str
    tool: str
    arguments: Mapping[str, Any]


class _RequestRefused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ToolProtocol(NamedTuple):
    """`on_listed` is called with the tools' list, which the agent will have read in `ARRIVAL_S`."""

    role: str
    on_listed: Callable[[], None]

    def read_line(self, line: bytes) -> Frame | ToolCall | None:
        """The frame to send back, or a call to run first.

        None for a blank line, a notification, or an answer to a request that we never make.
        """
        if not line.strip():
            return None
        try:
            frame = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error_frame(None, _PARSE_ERROR, f"not JSON: {error}")
        if not isinstance(frame, dict):
            return _error_frame(None, _INVALID_REQUEST, "not an object")
        request_id, method = frame.get("id"), frame.get("method")
        if method is None or "id" not in frame:
            return None
        if not isinstance(request_id, int | str) or isinstance(request_id, bool):
            return _error_frame(None, _INVALID_REQUEST, "the id is neither a number nor a text")
        params = frame.get("params") or {}
        if not isinstance(params, dict):
            return _error_frame(request_id, _INVALID_PARAMS, "the parameters are not an object")
        try:
            if method == "tools/call":
                return _tool_call(request_id, params)
            return _result_frame(request_id, self._answer(method, params))
        except _RequestRefused as error:
            return _error_frame(request_id, error.code, str(error))

    def _answer(self, method: object, params: dict[str, Any]) -> dict[str, Any]:
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
                self.on_listed()
                return {
                    "tools": [
                        {"name": kind.tool, "description": kind.about, "inputSchema": schema_of(kind)}
                        for kind in signals_for_role(self.role)
                    ]
                }
        raise _RequestRefused(_METHOD_NOT_FOUND, f"there is no method {method!r}")


async def run_call(call: ToolCall, submit: SubmitReport) -> Frame:
    """Store a report with `submit`, which returns its acknowledgement, and return the frame to send back."""
    try:
        _FAILPOINT.before()
        text, failed = await submit(call.tool, call.arguments), False
    except HoldfastError as error:
        text, failed = str(error), True
    _FAILPOINT.after()
    content = [{"type": "text", "text": _replace_surrogates(text)}]
    return _result_frame(call.request_id, {"content": content, "isError": failed})


def encode_frame(frame: Frame) -> bytes:
    return msgspec.json.encode(frame) + b"\n"


def report_id(prefix: str, line: int) -> str:
    """The id of the message that a line becomes: the same for whoever stores it, so that it is stored once."""
    return f"{prefix}{line:06x}"


def _tool_call(request_id: int | str, params: dict[str, Any]) -> ToolCall:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        raise _RequestRefused(_INVALID_PARAMS, "a call has a `name` and an object `arguments`")
    return ToolCall(request_id, name, arguments or {})


def _result_frame(request_id: int | str, result: dict[str, Any]) -> Frame:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error_frame(request_id: int | str | None, code: int, message: str) -> Frame:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": _replace_surrogates(message)}}


def _replace_surrogates(text: str) -> str:
    """A message may quote half a character of what the agent sent, which cannot be encoded."""
    return text.encode(errors="replace").decode()
