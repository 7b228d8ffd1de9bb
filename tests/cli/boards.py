"""The dashboard on a screen of memory, over a real home: what is to be read there, and keys to press."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from holdfast.app.tui.dashboard import Dashboard
from holdfast.engine.home import Home
from tests.support.wait import PATIENCE


class _Watched(Dashboard):
    """Tells when something was drawn."""

    def __init__(self, home: str) -> None:
        super().__init__(Home(home))
        self.drawn = asyncio.Event()

    def post_display_hook(self) -> None:
        self.drawn.set()


class Screen:
    def __init__(self, app: _Watched, pilot: Pilot[None]) -> None:
        self._app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        strips = self._app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    async def until(self, *words: str) -> str:
        """All of these are to be read at once."""
        try:
            await self._until(lambda: all(word in self.text for word in words))
        except TimeoutError:
            raise AssertionError(f"{words} never came:\n{self.text}") from None
        return self.text

    async def until_gone(self, words: str) -> None:
        await self._until(lambda: words not in self.text)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self._app.drawn.wait()
                self._app.drawn.clear()

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self._pilot.press(*("space" if letter == " " else letter for letter in text))


@asynccontextmanager
async def board(home: str, size: tuple[int, int] = (100, 40)) -> AsyncIterator[Screen]:
    app = _Watched(home)
    async with app.run_test(size=size) as pilot:
        yield Screen(app, pilot)
