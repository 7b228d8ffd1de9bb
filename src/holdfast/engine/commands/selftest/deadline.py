"""Ends a selftest at its deadline, wherever it is."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_REPEAT_S = 5.0  # seconds until the signal repeats: one that arrives where nothing can be raised is lost


class OutOfTime(KeyboardInterrupt):
    """Raised like Ctrl-C: waiting code ends what it started and does not take it for a result."""


@contextmanager
def deadline_at(moment: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread at that moment of the monotonic clock."""
    left = moment - time.monotonic()
    if left <= 0:
        raise OutOfTime
    before = signal.signal(signal.SIGALRM, _raise_out_of_time)
    other = signal.setitimer(signal.ITIMER_REAL, left, _REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *other)
        signal.signal(signal.SIGALRM, before)


def _raise_out_of_time(_number: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTime
