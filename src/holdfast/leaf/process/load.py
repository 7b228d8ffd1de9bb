"""How busy this machine is. Deadlines for other processes are multiplied by this factor."""

import os

_MAX_FACTOR = 10.0


def load_factor() -> float:
    """1 on an idle machine, up to 10 on a busy one."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return factor_for_load(load, len(os.sched_getaffinity(0)))


def factor_for_load(load: float, cpus: int) -> float:
    """The number of runnable processes per CPU, between 1 and 10."""
    return min(_MAX_FACTOR, max(1.0, load / cpus))
