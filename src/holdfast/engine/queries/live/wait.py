"""Waits until no process works on a run."""

from holdfast.engine.home import Home


async def wait_until_free(home: Home, run_id: str) -> None:
    """Return when no process owns the run. An owner that dies frees it too."""
    await home.store.wait_until_released(run_id)
