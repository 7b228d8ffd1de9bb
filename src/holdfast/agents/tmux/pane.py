"""The pane of one agent. It is alive while its process is, whatever tmux says.

Tmux reports changes of the screen, and the kernel the end of the process. People can watch, scroll, type and detach.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from holdfast.agents.tmux.control import watch_output
from holdfast.agents.tmux.server import TmuxServer, Window
from holdfast.leaf.process.death import wait_for_exit

T = TypeVar("T")

_RECONNECT_DELAY_S = 1.0  # after tmux disconnected
_MAX_TAIL_BYTES = 4000  # kept from the end of its output
_CURSOR_MOVES = re.compile(r"\x1b\[\d*C")  # to the right, used instead of spaces
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b.|[\x00-\x08\x0b-\x1f\x7f]")


class PaneLost(Exception):
    """The pane's process died, or its window was closed."""


class TmuxPane:
    def __init__(self, server: TmuxServer, window: Window) -> None:
        self.window = window
        self._server = server
        self._changed = asyncio.Event()
        self.lost = asyncio.Event()
        self.is_listening = asyncio.Event()  # set once no output can be missed
        self.on_output: Callable[[], None] = lambda: None  # called when its program writes
        self._tail = b""

    async def screen(self) -> str:
        return await asyncio.to_thread(self._server.screen, self.window.pane_id)

    async def paste(self, text: str) -> None:
        await asyncio.to_thread(self._server.paste, self.window.pane_id, text)

    async def press(self, keys: Sequence[str]) -> None:
        if keys:
            await asyncio.to_thread(self._server.press, self.window.pane_id, keys)

    async def wait_for(
        self, find: Callable[[str], T | None], timeout_s: float | None = None, *, poll_interval_s: float = 0.0
    ) -> T | None:
        """Call `find` whenever the screen changes, and return its first result; None after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    self._changed.clear()  # before reading the screen, so that no change is missed
                    if (result := find(await self.screen())) is not None:
                        return result
                    await self.wait_for_change()
                    await asyncio.sleep(poll_interval_s)
        except TimeoutError:
            return None

    async def wait_for_change(self) -> None:
        """Wait until the program has written something since the last read of the screen."""
        await _wait_for_any(self._changed, self.lost)
        if self.lost.is_set():
            raise PaneLost

    def last_output(self) -> str:
        """Return the end of the program's output as plain text."""
        text = _CONTROLS.sub("", _CURSOR_MOVES.sub(" ", self._tail.decode(errors="replace")))
        return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())

    def _on_written(self, data: bytes) -> None:
        self.is_listening.set()
        self._changed.set()
        if data:
            self._tail = (self._tail + data)[-_MAX_TAIL_BYTES:]
            self.on_output()

    async def listen(self) -> None:
        """Follow the pane until it is lost. Reconnects when a person detached this client."""
        death = asyncio.ensure_future(wait_for_exit(self.window.pid))
        try:
            while session := await asyncio.to_thread(self._server.find_session, self.window.pane_id):
                async with watch_output(self._server.socket, session, self.window.pane_id, self._on_written) as reader:
                    await asyncio.wait({reader, death}, return_when=asyncio.FIRST_COMPLETED)
                if death.done() or (await asyncio.wait({death}, timeout=_RECONNECT_DELAY_S))[0]:
                    return
        finally:
            death.cancel()
            self.lost.set()


@asynccontextmanager
async def watch_pane(server: TmuxServer, window: Window) -> AsyncIterator[TmuxPane]:
    """Follow a pane, and close it at the end."""
    pane = TmuxPane(server, window)
    listener = asyncio.ensure_future(pane.listen())
    try:
        await _wait_for_any(pane.is_listening, pane.lost)
        yield pane
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener
        await asyncio.to_thread(server.close_pane, window.pane_id)


async def _wait_for_any(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiters = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()


def squeeze(screen: str) -> str:
    """Remove what a terminal puts into a long line: spaces, line breaks, box edges."""
    return re.sub(r"[\s│┃|╎]+", "", screen)
