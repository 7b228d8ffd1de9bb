"""The pipe to an agent: checks its messages, and handles its updates in the order of their arrival.

Each update goes to `on_update` before the next line is read. So an answer is handled after all updates before it, and
an agent that floods us has to wait, instead of filling our memory.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from holdfast.agents.process.tree import ProcessTree

MAX_FRAME_BYTES = 64 * 1024 * 1024  # longer lines are skipped
MAX_NESTING = 200  # levels of a message; deeper ones could be neither answered nor recorded

OnUpdate = Callable[[str, dict[str, Any]], Awaitable[None]]
OnOddity = Callable[[str, str], Awaitable[None]]

_decode = msgspec.json.Decoder().decode


class Transport:
    """JSON lines over a process's stdin and stdout."""

    def __init__(self, tree: ProcessTree, on_update: OnUpdate, on_oddity: OnOddity) -> None:
        """`on_update` gets the session id and the update; `on_oddity` the kind of an invalid message and an excerpt."""
        self._tree = tree
        self._on_update = on_update
        self._on_oddity = on_oddity
        self._pending_requests: set[int] = set()
        self._unanswered = 0  # requests of the agent that have no answer yet
        self.frames_received = 0
        self.last_frame_at = 0.0  # when it last sent something, or got an answer: loop time
        self.failure: Exception | None = None  # our own, in handling its messages

    async def send(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.last_frame_at = asyncio.get_running_loop().time()
            self._unanswered -= 1
        elif "id" in message:
            self._pending_requests.add(message["id"])
        try:
            text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
            self._tree.stdin.write(text.encode(errors="replace") + b"\n")  # a path in an error may be no UTF-8
            await self._tree.stdin.drain()
        except (OSError, RuntimeError) as error:
            if "method" in message:  # an answer to a dead agent is no error
                raise ConnectionError(f"the agent accepts no more input: {error}") from error

    async def receive(self) -> dict[str, Any] | None:
        """Return the next request or answer; None at the end of the agent's output.

        Also None when we failed to handle it, for example on a full disk: the caller that waits for an answer raises
        `failure`.
        """
        try:
            return await self._next()
        except Exception as error:  # noqa: BLE001 - the waiting caller raises it
            self.failure = error
            return None

    async def _next(self) -> dict[str, Any] | None:
        while (line := await self._read_line()) is not None:
            message = await self._parse_message(line)
            if message is None:
                continue
            self.frames_received += 1
            self.last_frame_at = asyncio.get_running_loop().time()
            if "method" not in message:
                if await self._is_valid_response(message):
                    return message
            elif not isinstance(message["method"], str):
                await self._on_oddity("a message whose method is not a string", _excerpt(message))
            elif "id" in message:
                if await self._is_valid_request(message):
                    self._unanswered += 1
                    return message
            elif message["method"] == "session/update":
                await self._handle_update(message)
            elif not message["method"].startswith("_"):  # a vendor extension
                await self._on_oddity("an unknown notification", _excerpt(message))
        return None

    async def _is_valid_request(self, message: dict[str, Any]) -> bool:
        """True when it can be answered."""
        if "result" in message or "error" in message or not _is_valid_id(message["id"]):
            await self._on_oddity("a request that cannot be answered", _excerpt(message))
            return False
        return True

    @property
    def unanswered_requests(self) -> int:
        """Return how many answers the agent waits for."""
        return self._unanswered

    async def close(self) -> None:
        self._tree.stdin.close()

    async def _is_valid_response(self, message: dict[str, Any]) -> bool:
        """True for the first answer to a pending request."""
        request_id = message.get("id")
        if type(request_id) is not int or request_id not in self._pending_requests:
            await self._on_oddity("an answer without a request", _excerpt(message))
            return False
        self._pending_requests.remove(request_id)
        return True

    async def _handle_update(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(params, dict) or not isinstance(update, dict) or not isinstance(params.get("sessionId"), str):
            await self._on_oddity("an update without a session", _excerpt(message))
            return
        await self._on_update(params["sessionId"], update)

    async def _parse_message(self, line: bytes) -> dict[str, Any] | None:
        text = line.strip()
        if not text:
            return None
        try:
            message = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await self._on_oddity("a line that is not JSON", f"{error}: {text[:200].decode(errors='replace')}")
            return None
        if not isinstance(message, dict):
            await self._on_oddity("a line that is not a message", text[:200].decode(errors="replace"))
            return None
        if _is_too_deep(text, message):
            await self._on_oddity("a message that is nested too deeply", text[:200].decode(errors="replace"))
            return _flattened_error(message)
        return message

    async def _read_line(self) -> bytes | None:
        """Return a complete line, however many reads it takes; a line that is too long is reported and skipped."""
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                pieces.append(await self._tree.stdout.readuntil(b"\n"))
                break
            except asyncio.LimitOverrunError as error:
                piece = await self._tree.stdout.readexactly(error.consumed)
                size += len(piece)
                if size <= MAX_FRAME_BYTES:
                    pieces.append(piece)
                else:
                    del pieces[1:]  # the first is enough for the report
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    await self._on_oddity("an incomplete last line", error.partial[:200].decode(errors="replace"))
                return None
        if size > MAX_FRAME_BYTES:
            excerpt = pieces[0][:200].decode(errors="replace")
            await self._on_oddity("a line that is too long", f"{size:,} bytes: {excerpt}")
            return b""
        return b"".join(pieces)


def _flattened_error(message: dict[str, Any]) -> dict[str, Any]:
    """Replace a message that is nested too deeply: as an answer it becomes an error, as a request it is answered."""
    parts = {name: message[name] for name in ("id", "method") if _is_valid_id(message.get(name))}
    return parts if "method" in parts else {**parts, "error": {"message": f"more than {MAX_NESTING} levels"}}


def _is_valid_id(value: object) -> bool:
    return type(value) in (int, str)


def _is_too_deep(line: bytes, message: object) -> bool:
    """Count brackets first: most lines have so few that they cannot be too deep."""
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return False
    level: list[object] = [message]
    for _ in range(MAX_NESTING):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _excerpt(message: dict[str, Any]) -> str:
    return str(message)[:200]
