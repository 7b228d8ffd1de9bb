"""The wall clock in seconds, for what goes by the time of day: it may be set, and jumps over a suspended machine."""

import asyncio
import time


class WallClock:
    """The time of day in seconds, and sleeping. Tests have their own."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
