"""Ends a session whose lease is lost: every process that works for the run first, then the session itself.

A store of many machines gives the run to another one when the lease has ended. The session does not end by itself on a
machine that was cut off: its agents would go on, beside those of the new owner. So they are killed by the kernel's
means, without anything that could wait: the log, the network, or the agent.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from holdfast.engine.containers import end_containers
from holdfast.leaf.errors import HoldfastError, RunFenced
from holdfast.leaf.process.env_markers import RUN_MARK, iter_marked_processes, mark_of
from holdfast.leaf.process.identity import ProcessIdentity, ProcessTable, kill_until_none_left, own_identity
from holdfast.store.run import OwnedRun


@asynccontextmanager
async def ended_when_lost(run: OwnedRun, run_id: str, folder: str, lost: asyncio.Event) -> AsyncIterator[None]:
    """Cancel the block when the run's lease is lost, and raise `RunFenced` then. Sets `lost` first."""
    session = asyncio.current_task()
    assert session is not None, "a session runs in a task"
    reasons: list[str] = []
    cancelled = False

    async def end_when_lost() -> None:
        nonlocal cancelled
        reasons.append(await run.wait_until_lost())
        lost.set()
        try:
            await asyncio.to_thread(_kill_processes, run, run_id, folder)
        finally:
            cancelled = True
            session.cancel()

    watching = asyncio.create_task(end_when_lost())
    try:
        yield
    except (asyncio.CancelledError, HoldfastError, OSError) as error:
        if not reasons or (cancelled and session.uncancel()):
            raise
        raise RunFenced(
            f"run {run_id} is not ours any more: {reasons[0]}; its agents here were ended. See: holdfast show {run_id}"
        ) from error
    finally:
        watching.cancel()


def _kill_processes(run: OwnedRun, run_id: str, folder: str) -> None:
    """Kill everything that works for the run here; but nothing of a newer owner, which may be on this machine, too."""

    def find() -> Iterable[ProcessIdentity]:
        return _own_processes(run_id) if run.may_have_another_owner else iter_marked_processes(RUN_MARK, run_id)

    kill_until_none_left(find)
    if not run.may_have_another_owner:
        with suppress(HoldfastError):  # an engine that does not answer: the next owner asks it again
            end_containers(folder, run_id)


def _own_processes(run_id: str) -> Iterable[ProcessIdentity]:
    descendants = ProcessTable().descendants(own_identity())  # orphans, too: they become our children
    return (process for process in descendants if mark_of(process.pid, RUN_MARK) == run_id)
