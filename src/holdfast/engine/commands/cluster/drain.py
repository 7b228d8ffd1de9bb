"""Drains a worker: it takes no more runs, hands over those that it has, and ends."""

from holdfast.engine.home import Home
from holdfast.engine.queries.placement import SILENT_AFTER_S


async def drain_worker(home: Home, name: str) -> bool:
    """Ask for it; True when the worker is dead, and so only its row is deleted."""
    workers = home.workers
    await workers.drain(name)
    row = next((row for row in await workers.list() if row.name == name), None)
    if row is not None and row.seen_s > SILENT_AFTER_S:
        await workers.forget(name)
        return True
    return False
