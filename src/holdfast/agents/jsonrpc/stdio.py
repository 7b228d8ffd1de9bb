"""The agent's side of a JSON-RPC connection: a message a line, on our own stdin and stdout."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from holdfast.agents.jsonrpc.connection import (
    INTERNAL_ERROR_CODE,
    INVALID_REQUEST_CODE,
    PARSE_ERROR_CODE,
    Handler,
    JsonRpcConnection,
    JsonRpcError,
)

_CHUNK_BYTES = 1 << 16
_STDIN_FD, _STDOUT_FD = 0, 1


class StdioConnection(JsonRpcConnection):
    """Threads read and write: stdin and stdout may be pipes, sockets or files."""

    def __init__(self, handle: Handler) -> None:
        super().__init__(handle, self._write_frame)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._write_executor = ThreadPoolExecutor(1, "stdout")  # one, so that frames keep their order
        self._is_broken = False

    async def listen(self) -> None:
        """Process messages until stdin ends."""
        threading.Thread(target=_read_lines, args=(asyncio.get_running_loop(), self._lines), daemon=True).start()
        await self.serve(self._receive, JsonRpcError(INTERNAL_ERROR_CODE, "the client disconnected"))

    async def notify(self, method: str, params: Any) -> None:
        """Send it also after the end of stdin: the client may still read."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def send_bytes(self, data: bytes) -> None:
        """Return when the bytes are in the pipe: if we crash then, they still arrive."""
        await asyncio.get_running_loop().run_in_executor(self._write_executor, self._write, data)

    async def _write_frame(self, frame: dict[str, Any]) -> None:
        await self.send_bytes(msgspec.json.encode(frame) + b"\n")

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._is_broken:
            try:
                rest = rest[os.write(_STDOUT_FD, rest) :]
            except BrokenPipeError:  # the client disconnected; the end of stdin, or the script, decides what happens
                self._is_broken = True

    async def _receive(self) -> dict[str, Any] | None:
        """Return the next message; lines that are none get an error response."""
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            try:
                frame = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                await self.send_error(None, JsonRpcError(PARSE_ERROR_CODE, f"not JSON: {error}"))
                continue
            if isinstance(frame, dict):
                return frame
            await self.send_error(None, JsonRpcError(INVALID_REQUEST_CODE, "not an object"))
        return None


def _read_lines(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[bytes | None]") -> None:
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
