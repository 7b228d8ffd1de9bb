"""JSON-RPC 2.0 over any channel that keeps the order of messages: our requests, and those of the other side.

The client of agents, the scripted agent, the tmux proxy and the scripted agent's MCP client all use it. Protocol SDKs
are not loaded here: building their models takes longer than everything else that a run does at its start.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

PARSE_ERROR_CODE = -32700
INVALID_REQUEST_CODE = -32600
METHOD_NOT_FOUND_CODE = -32601
INVALID_PARAMS_CODE = -32602
INTERNAL_ERROR_CODE = -32603
RESOURCE_NOT_FOUND_CODE = -32002  # from the range that a server may define; MCP and ACP use it

Handler = Callable[[str, Any, Any], Awaitable[Any]]
SendFrame = Callable[[dict[str, Any]], Awaitable[None]]
ReceiveFrame = Callable[[], Awaitable[dict[str, Any] | None]]

_log = logging.getLogger(__name__)


class AlreadyResponded:
    """A handler returns this class instead of a result when it has sent the response itself."""


class JsonRpcError(Exception):
    """An error response: ours to the other side, or theirs to us."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    @classmethod
    def read(cls, error: object) -> "JsonRpcError":
        """Read the `error` of a response. Some agents send only a text, or leave out the code."""
        fields = error if isinstance(error, dict) else {"message": error}
        code = fields.get("code")
        return cls(
            code if type(code) is int else INTERNAL_ERROR_CODE,
            str(fields.get("message", "no reason given")),
            fields.get("data"),
        )

    def as_error(self) -> dict[str, Any]:
        return {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})


class JsonRpcConnection:
    """One side of a connection.

    `handle(method, params, id)` returns the result for a request; a notification has the id None. Requests are handled
    at the same time, but each starts before the next message is read.
    """

    def __init__(self, handle: Handler, send_frame: SendFrame) -> None:
        self._handle = handle
        self._send_frame = send_frame
        self._request_ids = itertools.count()
        self._pending: dict[Any, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._disconnected: Exception | None = None

    async def serve(self, receive: ReceiveFrame, disconnected: Exception) -> None:
        """Process messages until there are no more; then pending and later requests raise `disconnected`."""
        try:
            while (frame := await receive()) is not None:
                await self.process(frame)
        finally:
            self.disconnect(disconnected)

    def disconnect(self, error: Exception) -> None:
        self._disconnected = self._disconnected or error
        for response in self._pending.values():
            if not response.done():
                response.set_exception(error)

    async def finish(self) -> None:
        """Wait until all requests of the other side are answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self) -> None:
        """Cancel the handling of all requests of the other side."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def request(self, method: str, params: Any) -> Any:
        """Return the result; raises `JsonRpcError` for an error response."""
        if self._disconnected is not None:
            raise self._disconnected
        request_id = next(self._request_ids)
        response = self._pending[request_id] = asyncio.get_running_loop().create_future()
        try:
            await self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            return await response
        finally:
            del self._pending[request_id]
            if response.done() and not response.cancelled():
                response.exception()  # the connection may end before the request is sent: only that is raised

    async def notify(self, method: str, params: Any) -> None:
        if self._disconnected is not None:
            raise self._disconnected
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answer(self, request_id: Any, result: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    async def send(self, frame: dict[str, Any]) -> None:
        await self._send_frame(frame)

    async def process(self, frame: dict[str, Any]) -> None:
        method = frame.get("method")
        if isinstance(method, str):
            self._start_task(self._run_request(method, frame.get("params"), frame.get("id")))
            await asyncio.sleep(0)  # it starts before the next message is read
            return
        request_id = frame.get("id")
        response = self._pending.get(request_id) if type(request_id) is int else None
        if response is None or response.done():
            return
        if frame.get("error") is not None and frame.get("result") is None:
            response.set_exception(JsonRpcError.read(frame["error"]))
        else:
            response.set_result(frame.get("result"))

    async def send_error(self, request_id: Any, error: JsonRpcError) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "error": error.as_error()})

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_request(self, method: str, params: Any, request_id: Any) -> None:
        try:
            result = await self._handle(method, params, request_id)
        except JsonRpcError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - a bug of ours: the other side gets an answer all the same
            _log.exception("%s failed", method)
            refusal = JsonRpcError(INTERNAL_ERROR_CODE, f"internal error: {error!r}")
        else:
            if request_id is not None and result is not AlreadyResponded:
                await self.answer(request_id, result)
            return
        if request_id is not None:
            await self.send_error(request_id, refusal)
