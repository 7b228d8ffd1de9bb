"""Snapshots of a cluster run during long turns: a lost machine loses what an agent wrote since the last one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.errors import HoldfastError


@asynccontextmanager
async def snapshotting_turns(workspace: Workspace, interval_s: float) -> AsyncIterator[None]:
    """Snapshot the worktrees of turns in progress while the context lasts. A run of this machine alone needs none."""
    is_shared = workspace.info.remote is not None and interval_s > 0
    watching = asyncio.create_task(_snapshot_turns(workspace, interval_s)) if is_shared else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})


async def _snapshot_turns(workspace: Workspace, interval_s: float) -> None:
    """What fails is tried again the next time."""
    while True:
        await asyncio.sleep(interval_s)
        conversations = workspace.effects.run.state.conversations.values()
        for task_id in {known.task for known in conversations if known.turn is not None and known.task is not None}:
            with suppress(HoldfastError, OSError):
                await workspace.snapshot_during_turn(task_id)
