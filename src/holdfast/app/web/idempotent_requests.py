"""Requests with a key are done once. A second one, also while the first is being done, gets the first one's answer.

This remembers them for as long as the server lives. What must hold after its death, too, follows from the key itself:
the ids of messages and runs.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.leaf.errors import BadInput

_MAX_KEPT = 2_000


class _Done(NamedTuple):
    digest: bytes
    answer: asyncio.Future[Any]


class IdempotentRequests:
    def __init__(self) -> None:
        self._done: OrderedDict[Any, _Done] = OrderedDict()

    async def do(self, name: Any, body: bytes, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do the work of this name, unless it was done or is being done. What failed is done again."""
        digest = hashlib.sha256(body).digest()
        known = self._done.get(name)
        if known is not None and known.digest != digest:
            raise BadInput("this Idempotency-Key was used for another request; use a new one")
        if known is None:
            known = self._done[name] = _Done(digest, asyncio.ensure_future(work()))
            known.answer.add_done_callback(lambda answer: self._forget_failed(name, answer))
            while len(self._done) > _MAX_KEPT:
                self._done.popitem(last=False)
        return await asyncio.shield(known.answer)

    def _forget_failed(self, name: Any, answer: asyncio.Future[Any]) -> None:
        """Also when nobody waits for the answer any more."""
        has_failed = answer.cancelled() or answer.exception() is not None
        if has_failed and name in self._done and self._done[name].answer is answer:
            del self._done[name]


class SharedWork:
    """Work that several ask for at the same time is done once for all of them."""

    def __init__(self) -> None:
        self._running: dict[Any, asyncio.Future[Any]] = {}

    async def do(self, name: Any, work: Callable[[], Awaitable[Any]]) -> Any:
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.ensure_future(work())
            running.add_done_callback(lambda _: self._running.pop(name, None))
        return await asyncio.shield(running)
