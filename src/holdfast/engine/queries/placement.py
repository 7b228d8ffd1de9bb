"""Where runs are placed: cluster runs, and the workers that hold them."""

from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.store.index import WorkerRow

SILENT_AFTER_S = 15.0  # without a sign of life, a worker counts as dead


def is_cluster_run(state: RunState) -> bool:
    """Whether workers of a cluster run it."""
    return state.run is not None and state.run.remote is not None


async def list_workers(home: Home) -> list[WorkerRow]:
    """Return every worker, by name; those that died stay listed until they are drained."""
    return await home.workers.list()
