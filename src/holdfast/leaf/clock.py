"""The wall clock, as the envelope writes it. Passed in as a value, so that tests own time."""

import time
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[], str]


def now() -> str:
    """The present moment, e.g. `2026-02-14T10:00:00.000Z`."""
    moment = time.time()
    second = int(moment)
    return _second(second) + _THOUSANDTHS[int((moment - second) * 1000)]


@lru_cache(maxsize=2)  # every event is stamped, and most share their second
def _second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


_THOUSANDTHS = tuple(f".{number:03d}Z" for number in range(1000))
