"""The wall clock, as the envelope writes it. Passed in as a value, so that tests own time."""

import time
from collections.abc import Callable
from functools import lru_cache

Clock = Callable[[], str]


def now() -> str:
    """The present moment, e.g. `2026-02-14T10:00:00.000Z`."""
    return _moment(time.time_ns() // 1_000_000)


@lru_cache(maxsize=2)  # the next event is often stamped within the same thousandth of a second,
def _moment(thousandths: int) -> str:
    second, rest = divmod(thousandths, 1000)
    return _second(second) + str(1000 + rest)[1:] + "Z"  # formatting touches more code than all of this


@lru_cache(maxsize=2)  # and nearly always within the same second
def _second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
