"""Where runs are placed: cluster runs, and the workers that hold them."""

from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.store.index import WorkerRow

__all__ = ["SILENT_AFTER_S", "WAKING_STATUSES", "WorkerRow", "is_cluster_run", "list_workers"]

WAKING_STATUSES = (EndReason.IDLE, EndReason.WAITING, RunStatus.DONE)  # a message or an answer continues such a run
SILENT_AFTER_S = 15.0  # without a sign of life, a worker counts as dead


def is_cluster_run(state: RunState) -> bool:
    """Whether workers of a cluster run it."""
    return state.run is not None and state.run.remote is not None


async def list_workers(home: Home) -> list[WorkerRow]:
    """Return every worker, by name; those that died stay listed until they are drained."""
    return await home.workers.list()
