"""The pipe to an agent, with its updates taken off it in the order of their arrival.

The protocol's library runs each notification as a task of its own, and so loses their order. Here they never reach it:
what an agent tells goes to `tell`, one after the other, before the next line is read. So an answer comes after all that
was said before it, and an agent that floods us waits for us, not in our memory.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from holdfast.agents.process.tree import Tree

LONGEST = 64 * 1024 * 1024  # bytes of one frame; what is longer is no message
DEEPEST = 200  # levels of one; what is nested deeper nobody could answer, or write down

_INTERNAL = -32603  # the protocol's code for what has no better one

Told = Callable[[str, dict[str, Any]], Awaitable[None]]
Odd = Callable[[str, str], Awaitable[None]]

_decode = msgspec.json.Decoder().decode


class Transport:
    """Lines of JSON over a process's stdin and stdout, as the library wants them."""

    def __init__(self, tree: Tree, tell: Told, odd: Odd) -> None:
        """`tell` gets the session and the update; `odd` what was no message, and a piece of it."""
        self._tree = tree
        self._tell = tell
        self._odd = odd
        self._asked: set[int] = set()
        self._owed = 0  # questions of the agent's that have no answer yet
        self.seen = 0
        self.last = 0.0  # when it last said something, or got an answer of ours: by the loop's clock
        self.failure: Exception | None = None  # of ours, in hearing it

    async def send(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.last = asyncio.get_running_loop().time()
            self._owed -= 1
        elif "id" in message:
            self._asked.add(message["id"])
        try:
            self._tree.stdin.write(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            await self._tree.stdin.drain()
        except (OSError, RuntimeError) as error:
            if "method" in message:  # else nobody waits: it was an answer, and who asked is gone
                raise ConnectionError(f"the agent takes no more: {error}") from error

    async def receive(self) -> dict[str, Any] | None:
        """The next request or answer; None when the agent has nothing more to say.

        Or when we cannot hear it, as on a full disk: whoever waits for an answer finds `failure`. The library would
        only print it.
        """
        try:
            return await self._next()
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            self.failure = error
            return None

    async def _next(self) -> dict[str, Any] | None:
        while (line := await self._line()) is not None:
            message = await self._message(line)
            if message is None:
                continue
            self.seen += 1
            self.last = asyncio.get_running_loop().time()
            if "method" not in message:
                if await self._is_answer(message):
                    return message
            elif not isinstance(message["method"], str):
                await self._odd("a message whose method is no name", _piece(message))
            elif "id" in message:
                if await self._is_question(message):
                    self._owed += 1
                    return message
            elif message["method"] == "session/update":
                await self._update(message)
            elif not message["method"].startswith("_"):  # those are the vendor's own
                await self._odd("an unknown notification", _piece(message))
        return None

    async def _is_question(self, message: dict[str, Any]) -> bool:
        """True when it can be answered. What is about it (`_meta`) stays here: the library takes it for parts of it."""
        if "result" in message or "error" in message or not _is_plain(message["id"]):
            await self._odd("a question that cannot be answered", _piece(message))
            return False
        if isinstance(message.get("params"), dict):
            message["params"].pop("_meta", None)
        return True

    @property
    def owing(self) -> int:
        """How many answers of ours the agent waits for."""
        return self._owed

    async def close(self) -> None:
        self._tree.stdin.close()

    async def _is_answer(self, message: dict[str, Any]) -> bool:
        """True for the first answer to something that was asked; its error is made readable for the library."""
        asked = message.get("id")
        if type(asked) is not int or asked not in self._asked:
            await self._odd("an answer to nothing that was asked", _piece(message))
            return False
        self._asked.remove(asked)
        error = message.get("error")
        if "result" not in message and error is not None:
            known = error if isinstance(error, dict) else {"message": error}
            code = known.get("code")
            message["error"] = {
                "code": code if type(code) is int else _INTERNAL,
                "message": str(known.get("message", "it did not say why")),
                "data": known.get("data"),
            }
        return True

    async def _update(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(params, dict) or not isinstance(update, dict) or not isinstance(params.get("sessionId"), str):
            await self._odd("an update without a session", _piece(message))
            return
        await self._tell(params["sessionId"], update)

    async def _message(self, line: bytes) -> dict[str, Any] | None:
        text = line.strip()
        if not text:
            return None
        try:
            message = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            await self._odd("a line that is no JSON", f"{error}: {text[:200].decode(errors='replace')}")
            return None
        if not isinstance(message, dict):
            await self._odd("a line that is no message", text[:200].decode(errors="replace"))
            return None
        if _is_too_deep(text, message):
            await self._odd("a message that is nested too deep", text[:200].decode(errors="replace"))
            return _flat(message)
        return message

    async def _line(self) -> bytes | None:
        """A whole line, however many reads it takes; too long a one is passed over, and told of."""
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                pieces.append(await self._tree.stdout.readuntil(b"\n"))
                break
            except asyncio.LimitOverrunError as error:
                piece = await self._tree.stdout.readexactly(error.consumed)
                size += len(piece)
                if size <= LONGEST:
                    pieces.append(piece)
                else:
                    del pieces[1:]  # the first shows what it was
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    await self._odd("half a line at its end", error.partial[:200].decode(errors="replace"))
                return None
        if size > LONGEST:
            beginning = pieces[0][:200].decode(errors="replace")
            await self._odd("a line that is too long", f"{size:,} bytes: {beginning}")
            return b""
        return b"".join(pieces)


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """What is left of one that is nested too deep: whoever waits for it, or for an answer to it, is told so."""
    parts = {name: message[name] for name in ("id", "method") if _is_plain(message.get(name))}
    return parts if "method" in parts else {**parts, "error": {"message": f"more than {DEEPEST} levels"}}


def _is_plain(value: object) -> bool:
    return type(value) in (int, str)


def _is_too_deep(line: bytes, message: object) -> bool:
    """Most lines have so few brackets that they cannot be."""
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return False
    level: list[object] = [message]
    for _ in range(DEEPEST):
        level = [below for one in level for below in _below(one)]
        if not level:
            return False
    return True


def _below(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _piece(message: dict[str, Any]) -> str:
    return str(message)[:200]
