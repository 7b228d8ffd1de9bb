"""Counts the attempts in a row that could not work on a run, so that no run goes from worker to worker for ever.

The count is in the store, where all workers see it: Temporal's number of attempts also counts machines that died and
workers that were drained.
"""

import time

import msgspec

from holdfast.engine.home import Home

_FILE = "setbacks.json"
_IN_A_ROW_S = 600.0  # longer ago, the run worked meanwhile
_FIRST_DELAY_S, _MAX_DELAY_S = 2.0, 60.0


class _Setbacks(msgspec.Struct):
    count: int
    at: float  # seconds since 1970, by the clock of the machine that counted


async def count_setback(home: Home, run_id: str) -> int:
    """Count one more, and return how many there are in a row. Of two that count at once, one may be lost."""
    data = await home.store.load_file(run_id, _FILE)
    count, now = 1, time.time()
    if data is not None:
        before = msgspec.json.decode(data, type=_Setbacks)
        count += before.count if now - before.at < _IN_A_ROW_S else 0
    await home.store.save_file(run_id, _FILE, msgspec.json.encode(_Setbacks(count, now)))
    return count


def delay_s(count: int) -> float:
    """Return how long to wait after so many setbacks."""
    return min(_FIRST_DELAY_S * 2.0 ** (count - 1), _MAX_DELAY_S)
