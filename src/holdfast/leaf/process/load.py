"""How busy this machine is. Deadlines for what other processes do are that much longer."""

import os

_MOST = 10.0


def slowness() -> float:
    """1 where a process gets a CPU when it wants one; on a busy machine up to ten."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return stretch(load, len(os.sched_getaffinity(0)))


def stretch(load: float, cpus: int) -> float:
    """By how many processes want each CPU."""
    return min(_MOST, max(1.0, load / cpus))
