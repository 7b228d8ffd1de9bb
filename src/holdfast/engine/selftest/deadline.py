"""The end of a selftest, whatever it is at."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_REPEAT_S = 5.0  # seconds, and it comes again: one that comes where nobody may raise is lost


class OutOfTime(KeyboardInterrupt):
    """As a Ctrl-C is: whoever waits lets go, ends what it has started, and takes it for no answer."""


@contextmanager
def deadline_at(moment: float) -> Iterator[None]:
    """At that moment of the monotonic clock `OutOfTime` comes, in the middle of what is done. For the main thread."""
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
