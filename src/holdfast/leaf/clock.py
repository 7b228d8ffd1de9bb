"""The wall clock, in the format of the event envelope. Callers pass it as a value, so that tests control time."""

import time
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[], str]


def now() -> str:
    """The current time, e.g. `2026-02-14T10:00:00.000Z`."""
    return _format_ms(time.time_ns() // 1_000_000)


@lru_cache(maxsize=2)  # the next event often falls within the same millisecond
def _format_ms(milliseconds: int) -> str:
    second, rest = divmod(milliseconds, 1000)
    return _format_second(second) + str(1000 + rest)[1:] + "Z"  # faster than format()


@lru_cache(maxsize=2)  # and nearly always within the same second
def _format_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
