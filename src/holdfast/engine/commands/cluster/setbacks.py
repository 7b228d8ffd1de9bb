"""Counts the attempts in a row that could not work on a run, so that no run goes from worker to worker for ever.

The count is in the store, where all workers see it: Temporal's number of attempts also counts machines that died and
workers that were drained.
"""

import time
from contextlib import suppress

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.engine.commands.cluster.session_report import ReportKind, SessionReport
from holdfast.engine.commands.supervise import park_run
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import HoldfastError

MAX_REFUSALS = 6  # in a row, by workers that cannot start the run; then it is parked, and says why
MAX_FAULTS = 10  # in a row, such as a remote that does not answer; with growing delays, they take about five minutes

_FILE = "setbacks.json"
_IN_A_ROW_S = 600.0  # longer ago, the run worked meanwhile
_FIRST_DELAY_S, _MAX_DELAY_S = 2.0, 60.0


class _Setbacks(msgspec.Struct):
    count: int
    at: float  # seconds since 1970, by the clock of the machine that counted


async def set_back(home: Home, run_id: str, kind: ReportKind, problem: str) -> SessionReport:
    """Leave the run to the next attempt. After several in a row its log says why; a newer run is only left."""
    after = None
    with suppress(HoldfastError):
        count = await _count_setback(home, run_id)
        after = _delay_s(count) if kind is not ReportKind.REFUSED else None
        view = await view_run(home, run_id)
        most = MAX_REFUSALS if kind is ReportKind.REFUSED else MAX_FAULTS
        if count >= most and not view.state.newer and view.holder is None:
            await park_run(home, run_id, problem)
            return SessionReport(ReportKind.ENDED, reason=EndReason.PARKED, detail=problem)
    return SessionReport(kind, detail=problem, after_s=after)


async def _count_setback(home: Home, run_id: str) -> int:
    """Count one more, and return how many there are in a row. Of two that count at once, one may be lost."""
    data = await home.store.load_file(run_id, _FILE)
    count, now = 1, time.time()
    if data is not None:
        before = msgspec.json.decode(data, type=_Setbacks)
        count += before.count if now - before.at < _IN_A_ROW_S else 0
    await home.store.save_file(run_id, _FILE, msgspec.json.encode(_Setbacks(count, now)))
    return count


def _delay_s(count: int) -> float:
    """Return how long to wait after so many setbacks."""
    return min(_FIRST_DELAY_S * 2.0 ** (count - 1), _MAX_DELAY_S)
