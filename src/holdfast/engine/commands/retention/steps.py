"""The steps in which an archived run shrinks: its log is compressed, its transcripts are withheld, it is deleted.

Each step can be interrupted anywhere and done again. What was withheld is recorded in the log before it is withheld.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum
from io import BytesIO

from holdfast.agents.process.tree import finish_uncancelled
from holdfast.core.end_reason import EndReason
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.log.withholding import TRANSCRIPTS, Measurement, withhold
from holdfast.core.state import RunState, WithheldPart
from holdfast.engine.commands.archive import archive, delete_worktrees, reset
from holdfast.engine.commands.retention.tombstone import write_tombstone
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.workspace import open_workspace
from holdfast.leaf.errors import Denied
from holdfast.store.run import OwnedRun, open_run

COMMAND = "prune"


class RetentionStep(StrEnum):
    WORKTREES = "worktrees"
    ARCHIVE = "archive"
    COMPRESS = "compress"
    TRANSCRIPTS = "transcripts"
    DELETE = "delete"


async def apply_step(home: Home, run_id: str, step: RetentionStep) -> None:
    """Do one step, and finish what a killed one left. Does nothing when it is done already."""
    if step is RetentionStep.ARCHIVE:
        await archive(home, run_id)
        return
    if step is RetentionStep.WORKTREES:
        async with open_workspace(home, run_id, COMMAND) as workspace:
            await delete_worktrees(workspace)
        return
    state = (await view_run(home, run_id)).state
    _check_archived(run_id, state)
    if step is RetentionStep.DELETE:
        await write_tombstone(home, run_id)
        await reset(home, run_id)
        return
    if home.log_compressor(run_id) is None:
        raise Denied(f"the log of run {run_id} is in a database; only `--to delete` makes it smaller")
    if step is RetentionStep.TRANSCRIPTS and not is_withheld(state):
        await _record_withholding(home, run_id)
    await _compress(home, run_id)


def is_withheld(state: RunState) -> bool:
    """Whether everything that can be withheld is recorded as withheld: nothing was added since."""
    newest = next(reversed(state.sessions.values()), None)
    return bool(state.withheld) and newest is not None and newest.command == COMMAND and newest.ended


def is_step_done(home: Home, run_id: str, state: RunState, step: RetentionStep) -> bool:
    compressor = home.log_compressor(run_id)
    generation = compressor.generation() if compressor is not None else None
    is_compressed = compressor is None or (generation is not None and generation == len(state.withheld))
    match step:
        case RetentionStep.WORKTREES:
            return not _has_worktrees(home.folder(run_id))
        case RetentionStep.ARCHIVE:
            return state.run is not None and state.run.archived
        case RetentionStep.COMPRESS:
            return is_compressed
        case RetentionStep.TRANSCRIPTS:
            return compressor is None or (is_compressed and is_withheld(state))
        case _:
            return False


def _has_worktrees(folder: str) -> bool:
    tasks = os.path.join(folder, "tasks")
    names = os.listdir(tasks) if os.path.isdir(tasks) else []
    return os.path.isdir(os.path.join(folder, "workspace")) or any(not name.startswith(".") for name in names)


def _check_archived(run_id: str, state: RunState) -> None:
    if state.run is None or not state.run.archived:
        raise Denied(f"run {run_id} is not archived; archive it first: holdfast archive {run_id}")


async def _record_withholding(home: Home, run_id: str) -> None:
    async with _session(home, run_id) as run:
        until = run.head.position
        measured = Measurement(TRANSCRIPTS)
        async for batch in home.store.log(run_id).read():
            for raw in BytesIO(batch.data):
                measured.add(raw)
        await run.append(measured.record(until), expect=until)


@asynccontextmanager
async def _session(home: Home, run_id: str) -> AsyncIterator[OwnedRun]:
    """Own the run for one session, which its repository anchors, if it has one."""
    info = (await view_run(home, run_id)).state.run
    if info is not None and info.repo is not None and os.path.isdir(info.repo):
        async with open_workspace(home, run_id, COMMAND) as workspace:
            yield workspace.effects.run
        return
    async with open_run(home.store, run_id) as run:
        await run.begin_session(SessionStart(command=COMMAND, pid=os.getpid()))
        yield run
        await run.append(SessionEnd(reason=EndReason.ALL_DONE))


async def _compress(home: Home, run_id: str) -> None:
    async with home.store.own(run_id) as lease:
        state = (await view_run(home, run_id)).state
        _check_archived(run_id, state)
        compressor, generation = home.log_compressor(run_id), len(state.withheld)
        if compressor is None or compressor.generation() == generation:
            return
        await lease.repair()
        work = asyncio.to_thread(compressor.compress, generation, lambda lines: _rewrite(lines, state.withheld))
        await finish_uncancelled(work)  # it deletes the plain log: until then, the run must stay ours


def _rewrite(lines: Iterable[bytes], withheld: Iterable[WithheldPart]) -> Iterable[bytes]:
    for part in withheld:
        lines = withhold(lines, part.rule, part.until)
    return lines
