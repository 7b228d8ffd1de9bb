"""JSON-RPC, a message a line, on stdin and stdout.

Written out here, not taken from the SDK: a script may send half a frame or answer twice, and loading the SDK's models
would be most of the agent's start. The tests drive it by the SDK's client, and hold every update against its model.
"""

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from holdfast.agents.playbook.format import INTERNAL_ERROR

_CHUNK_BYTES = 1 << 16
_STDIN_FD, _STDOUT_FD = 0, 1
PARSE_ERROR_CODE = -32700
INVALID_REQUEST_CODE = -32600

Handler = Callable[[str, Any, Any], Awaitable[Any]]


class AlreadyResponded:
    """In place of a result: the answer is on its way already."""


class JsonRpcError(Exception):
    """The error that a request is answered with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def as_error(self) -> dict[str, Any]:
        return {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})


class JsonRpcConnection:
    """`handle(method, params, id)` answers a request; a notification has the id None and is handled in its place."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self._request_ids = itertools.count()
        self._pending: dict[Any, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._write_executor = ThreadPoolExecutor(1, "stdout")  # one, so that frames keep their order
        self._is_broken = False

    async def listen(self) -> None:
        """Until stdin ends."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        threading.Thread(target=_read_lines, args=(loop, lines), daemon=True).start()
        while (line := await lines.get()) is not None:
            if line.strip():
                await self._handle_line(line)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(JsonRpcError(INTERNAL_ERROR, "the client went away"))

    async def finish(self) -> None:
        """Wait for what is still being answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self) -> None:
        """Give up what is still being answered."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self._request_ids)
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await future
        finally:
            del self._pending[number]

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answer(self, request_id: Any, result: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    async def send(self, frame: dict[str, Any]) -> None:
        await self.send_bytes(msgspec.json.encode(frame) + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Returns when the bytes are in the pipe: a crash in the next step does not take them away."""
        await asyncio.get_running_loop().run_in_executor(self._write_executor, self._write, data)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._is_broken:
            try:
                rest = rest[os.write(_STDOUT_FD, rest) :]
            except BrokenPipeError:  # the client disconnected; the end of stdin, or the script, decides what happens
                self._is_broken = True

    async def _handle_line(self, line: bytes) -> None:
        try:
            frame = msgspec.json.decode(line)
        except msgspec.DecodeError as wrong:
            return await self._send_error(None, JsonRpcError(PARSE_ERROR_CODE, f"not JSON: {wrong}"))
        if not isinstance(frame, dict):
            return await self._send_error(None, JsonRpcError(INVALID_REQUEST_CODE, "not an object"))
        method = frame.get("method")
        if isinstance(method, str):
            self._start_task(self._run_request(method, frame.get("params"), frame.get("id")))
            await asyncio.sleep(0)  # it takes its place before the next frame is looked at
        elif (future := self._pending.get(frame.get("id"))) is not None and not future.done():
            if isinstance(error := frame.get("error"), dict):
                future.set_exception(
                    JsonRpcError(error.get("code", INTERNAL_ERROR), str(error.get("message", "error")))
                )
            else:
                future.set_result(frame.get("result"))
        return None

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_request(self, method: str, params: Any, request_id: Any) -> None:
        try:
            result = await self._handle(method, params, request_id)
        except JsonRpcError as refusal:
            return await self._send_error(request_id, refusal)
        except Exception as error:  # noqa: BLE001 - a bug here is reported like any other error, and on stderr
            sys.stderr.write(f"{method}: {error!r}\n")
            return await self._send_error(
                request_id, JsonRpcError(INTERNAL_ERROR, f"a defect of this agent: {error!r}")
            )
        if request_id is not None and result is not AlreadyResponded:
            await self.answer(request_id, result)
        return None

    async def _send_error(self, request_id: Any, error: JsonRpcError) -> None:
        if request_id is not None or error.code in (PARSE_ERROR_CODE, INVALID_REQUEST_CODE):
            await self.send({"jsonrpc": "2.0", "id": request_id, "error": error.as_error()})


def _read_lines(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]") -> None:
    """In a thread: stdin may be a pipe, a socket or a file."""
    begun: list[bytes] = []
    try:
        while data := os.read(_STDIN_FD, _CHUNK_BYTES):
            *ends, rest = data.split(b"\n")
            for end in ends:
                loop.call_soon_threadsafe(lines.put_nowait, b"".join((*begun, end)))
                begun = []
            begun.append(rest)
        loop.call_soon_threadsafe(lines.put_nowait, None)
    except RuntimeError:
        pass  # the loop ended first
    except OSError:
        loop.call_soon_threadsafe(lines.put_nowait, None)
