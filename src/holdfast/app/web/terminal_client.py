"""The WebSocket of a terminal: bytes in both directions, and its size as JSON."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from holdfast.app.text.screen import printable
from holdfast.app.web.live.pty import PtyViewer, Size
from holdfast.app.web.live.terminals import OpenTerminal
from holdfast.app.web.site import Site
from holdfast.leaf.errors import Denied, HoldfastError, StorageFailed

_RESET = b"\x1bc"
_MAX_UNSENT_BYTES = 1024 * 1024
_MAX_MESSAGE_BYTES = 64 * 1024


class TerminalQuery(msgspec.Struct, frozen=True):
    """What the path's query says. `id` and `conversation` are for kinds that have several."""

    kind: str = "shell"
    task: str | None = None
    conversation: str | None = None
    id: str | None = None
    cols: int = 80
    rows: int = 24


class _Resize(msgspec.Struct, frozen=True):
    resize: tuple[int, int]


async def serve_terminal(site: Site, websocket: WebSocket) -> None:
    """Serve one client until it leaves, or the program ends."""
    await websocket.accept()
    try:
        if not site.options.terminal:
            raise Denied("terminals are off, because this server is used from other machines; serve with --terminal")
        query = msgspec.convert(dict(websocket.query_params), TerminalQuery, strict=False)
        run_id = site.home.find_run(websocket.path_params["run"])
        size = Size(query.cols, query.rows).limited()
        opened = await site.terminals.open(run_id, query.kind, query.task or None, size)
    except msgspec.ValidationError as error:
        await _refuse(websocket, f"the query is wrong: {error}")
    except HoldfastError as error:
        await _refuse(websocket, str(error))
    except OSError as error:
        await _refuse(websocket, str(StorageFailed.from_os_error(error)))
    else:
        await TerminalClient(websocket, opened).run(size)


async def _refuse(websocket: WebSocket, text: str) -> None:
    error, _, hint = printable(text).partition("; ")
    await websocket.send_text(msgspec.json.encode({"type": "error", "error": error, "hint": hint or None}).decode())
    await websocket.close(1000)


class TerminalClient:
    """A client that reads slowly loses the middle of the output: it gets the end again, on a clear screen."""

    def __init__(self, websocket: WebSocket, opened: OpenTerminal) -> None:
        self._socket = websocket
        self._opened = opened
        self._wake = asyncio.Event()
        self._unsent = bytearray()
        self._exit_code: int | None = None
        self._viewer = PtyViewer(self._show, self._end)

    async def run(self, size: Size) -> None:
        pty = self._opened.pty
        pty.viewers.add(self._viewer)
        pty.resize(size)
        self._unsent += pty.kept
        self._wake.set()
        reader, writer = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            pty.viewers.discard(self._viewer)
            if not self._opened.is_shared:
                pty.close()
            if self._socket.application_state is WebSocketState.CONNECTED:
                with suppress(RuntimeError, WebSocketDisconnect):
                    await self._socket.close()

    async def _read(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                self._take(message)

    def _take(self, message: Any) -> None:
        data, text = message.get("bytes"), message.get("text")
        if data is not None:
            self._opened.pty.write(data[:_MAX_MESSAGE_BYTES])
        elif text is not None:
            with suppress(msgspec.DecodeError, UnicodeError):
                columns, rows = msgspec.json.decode(text, type=_Resize).resize
                self._opened.pty.resize(Size(columns, rows))

    async def _write(self) -> None:
        opened = self._opened
        with suppress(WebSocketDisconnect, RuntimeError, OSError):
            await self._send({"type": "opened", "id": opened.id, "title": opened.title, "writable": True})
            while self._unsent or self._exit_code is None:
                await self._wake.wait()
                self._wake.clear()
                data = bytes(self._unsent)
                self._unsent.clear()
                if data:
                    await self._socket.send_bytes(data)
            await self._send({"type": "closed", "code": self._exit_code})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(msgspec.json.encode(message).decode())

    def _show(self, data: bytes) -> None:
        if len(self._unsent) + len(data) > _MAX_UNSENT_BYTES:
            self._unsent[:] = _RESET + self._opened.pty.kept
        else:
            self._unsent += data
        self._wake.set()

    def _end(self, code: int) -> None:
        self._exit_code = code
        self._wake.set()
