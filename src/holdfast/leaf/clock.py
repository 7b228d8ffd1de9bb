"""The wall clock, as the envelope writes it. Passed in as a value, so that tests own time."""

import time
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[], str]


def now() -> str:
    """The present moment, e.g. `2026-02-14T10:00:00.000Z`."""
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=2)  # every event is stamped, and most share their second
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
