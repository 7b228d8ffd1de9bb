"""One agent in its window: alive while its process is, not while tmux is.

Told by tmux when the screen changes, and by the kernel when the process ends. People may look, scroll, type and detach
as they like.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from holdfast.agents.tmux.control import listening
from holdfast.agents.tmux.server import Server, Window
from holdfast.leaf.process.death import death_of

T = TypeVar("T")

_PAUSE = 1.0  # seconds, before a tmux that hung up is listened to again
_MOST = 4000  # bytes of what it wrote that are kept
_MOVES = re.compile(r"\x1b\[\d*C")  # to the right, in place of spaces
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.|[\x00-\x08\x0b-\x1f\x7f]")


class PaneLost(Exception):
    """Its process is gone, or its window is."""


class Pane:
    def __init__(self, server: Server, window: Window) -> None:
        self.window = window
        self._server = server
        self._changed = asyncio.Event()
        self.lost = asyncio.Event()
        self.heard = asyncio.Event()  # from now on nothing that its program writes is missed
        self.wrote: Callable[[], None] = lambda: None  # called when its program writes
        self._last = b""

    async def screen(self) -> str:
        return await asyncio.to_thread(self._server.screen, self.window.pane)

    async def paste(self, text: str) -> None:
        await asyncio.to_thread(self._server.paste, self.window.pane, text)

    async def press(self, keys: Sequence[str]) -> None:
        if keys:
            await asyncio.to_thread(self._server.press, self.window.pane, keys)

    async def until(
        self, found: Callable[[str], T | None], patience: float | None = None, *, pause: float = 0.0
    ) -> T | None:
        """What is found on the screen, looked for whenever it changes; None when that takes too long."""
        try:
            async with asyncio.timeout(patience):
                while True:
                    self._changed.clear()  # before the look, so that what comes during it is not missed
                    if (result := found(await self.screen())) is not None:
                        return result
                    await self.change()
                    await asyncio.sleep(pause)
        except TimeoutError:
            return None

    async def change(self) -> None:
        """Until its program has written since the last look."""
        await _first(self._changed, self.lost)
        if self.lost.is_set():
            raise PaneLost

    def last_words(self) -> str:
        """The end of what its program wrote, as lines that can be read."""
        text = _CONTROLS.sub("", _MOVES.sub(" ", self._last.decode(errors="replace")))
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def _written(self, data: bytes) -> None:
        self.heard.set()
        self._changed.set()
        if data:
            self._last = (self._last + data)[-_MOST:]
            self.wrote()

    async def listen(self) -> None:
        """Until it is lost. A client that somebody sent away comes back, while there is a window to listen to."""
        death = asyncio.ensure_future(death_of(self.window.pid))
        try:
            while session := await asyncio.to_thread(self._server.session_of, self.window.pane):
                async with listening(self._server.socket, session, self.window.pane, self._written) as heard:
                    await asyncio.wait({heard, death}, return_when=asyncio.FIRST_COMPLETED)
                if death.done() or (await asyncio.wait({death}, timeout=_PAUSE))[0]:
                    return
        finally:
            death.cancel()
            self.lost.set()


@asynccontextmanager
async def watched(server: Server, window: Window) -> AsyncIterator[Pane]:
    """A pane that is listened to, and closed in the end."""
    pane = Pane(server, window)
    listener = asyncio.ensure_future(pane.listen())
    try:
        await _first(pane.heard, pane.lost)
        yield pane
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener
        await asyncio.to_thread(server.close, window.pane)


async def _first(*events: asyncio.Event) -> None:
    """Until one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def squeezed(screen: str) -> str:
    """Without what a terminal puts between the letters of a long line: spaces, line ends, the edges of boxes."""
    return re.sub(r"[\s│┃|╎]+", "", screen)
