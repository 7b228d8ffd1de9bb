"""Estimates how long a selftest may take on this machine from its two main costs: starting a process and syncing.

A slow or busy machine gets more time than a fast one. Otherwise its checks would time out and show nothing.
"""

import os
import subprocess
import sys
import time
from typing import NamedTuple

from holdfast.core.config.durations import format_duration
from holdfast.engine.session import session as sitting

MIN_TIME_S = 50.0  # on a fast machine all checks together take half of this
MAX_TIME_S = 1800.0
_PROCESS_STARTS = 60  # about five times what the checks need: the machine may get busier meanwhile
_SYNCS = 2000
_MEASURED_SYNCS = 5
_START_TIMEOUT_S = 60.0  # for one process to start


class MachineCosts(NamedTuple):
    """Seconds to start a process that can run a run, and to sync one write."""

    start_s: float
    sync_s: float


class Deadline(NamedTuple):
    """A moment of the monotonic clock, and the seconds that were left when it was set."""

    moment: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds, seconds)

    @property
    def advice(self) -> str:
        """Explain how to get more time."""
        return f"give it more time: holdfast selftest --time {format_duration(max(60.0, round(2 * self.seconds)))}"


def time_limit(costs: MachineCosts) -> float:
    """Return the seconds allowed for all checks together."""
    return min(MAX_TIME_S, max(MIN_TIME_S, _PROCESS_STARTS * costs.start_s + _SYNCS * costs.sync_s))


def measure_costs(folder: str) -> MachineCosts:
    return MachineCosts(_start_cost(), _sync_cost(os.path.join(folder, "calibration")))


def _start_cost() -> float:
    started = time.monotonic()
    try:
        subprocess.run(
            [sys.executable, "-P", "-c", f"import {sitting.__name__}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_START_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _START_TIMEOUT_S
    return time.monotonic() - started


def _sync_cost(path: str) -> float:
    """Return the cost of a sync. The sync check itself reports a file that cannot be synced."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:
        return 0.0
    started = time.monotonic()
    try:
        for _ in range(_MEASURED_SYNCS):
            os.write(fd, b"x" * 300)
            os.fdatasync(fd)
    except OSError:
        return 0.0
    finally:
        os.close(fd)
    return (time.monotonic() - started) / _MEASURED_SYNCS
