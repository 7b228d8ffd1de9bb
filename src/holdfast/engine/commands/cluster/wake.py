"""Wakes a cluster run that had ended its session to wait for a person, when something arrives for it."""

from holdfast.engine.commands.cluster.submit import submit_run
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.queries.placement import WAKING_STATUSES, is_cluster_run
from holdfast.leaf.errors import HoldfastError


async def wake_run(home: Home, run_id: str) -> None:
    """Ask Temporal to place a cluster run that waits for a person. What arrived is durable already.

    The error says so: a message that is sent again is delivered twice.
    """
    view = await view_run(home, run_id)
    if is_cluster_run(view.state) and view.holder is None and view.status in WAKING_STATUSES:
        try:
            await submit_run(home, run_id)
        except HoldfastError as error:
            raise HoldfastError(
                f"it is stored, so do not send it again, but no worker continues the run yet: {error}. "
                f"Then continue it with: holdfast resume {run_id}"
            ) from error
