"""The spending of all runs of a home, in one locked file: what a day and a repository have cost.

The file says how far each log is counted. Sums and positions change in one atomic write, so that whatever is killed,
each recorded usage is counted exactly once: by its runner, or by the next who looks.
"""

import os

import msgspec

from holdfast.core.day_spending import Spending, count_usage, forget_old_days
from holdfast.leaf.errors import StorageFailed
from holdfast.leaf.files.disk import AppendFailpoints, Disk, replace
from holdfast.leaf.files.exclusive import lock_file
from holdfast.store.base import START, Log, Position

SPENDING = "spending.json"
_LOCK = "spending.lock"
_FAILPOINT = AppendFailpoints("spending.save")


class _CountedSpending(Spending):
    """`positions` says up to where each run's log is counted: it changes together with what was counted."""

    positions: dict[str, Position] = {}


async def count_run(home: str, run_id: str, log: Log, repository: str, disk: Disk) -> Spending:
    """Count what a run recorded since it was last counted. Returns the spending of all runs."""
    path = os.path.join(home, SPENDING)
    try:
        async with lock_file(os.path.join(home, _LOCK)):  # the logs of others may be long, and a holder frozen
            spending = _read(path)
            start = spending.positions.get(run_id)
            async for batch in log.read(start or START):
                count_usage(spending, repository, batch.data)
                spending.positions[run_id] = batch.end
            if spending.positions.get(run_id) != start:
                forget_old_days(spending)
                replace(path, msgspec.json.encode(spending), _FAILPOINT.wrap(disk))
            return spending
    except OSError as error:
        raise StorageFailed.from_os_error(error) from error


def _read(path: str) -> _CountedSpending:
    """Return what is counted. Raises `StorageFailed` for a damaged file: sums must not start again from zero."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=_CountedSpending)
    except FileNotFoundError:
        return _CountedSpending()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StorageFailed(
            f"{path} is damaged, so what was spent is unknown; to count all runs again from their logs, delete it"
        ) from None
