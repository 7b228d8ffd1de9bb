"""Refuses to make a second run of a session that a run was made of before."""

import os

from holdfast.core.work.foreign_tools import TOOL_NAMES, Tool
from holdfast.engine.commands.adopt.base import ForeignSession
from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun, list_runs
from holdfast.leaf.errors import Denied

_UNIQUE_IDS = (Tool.TILTH, Tool.CLAUDE_CODE, Tool.CODEX)  # no other session has the same id, also in a copy


async def refuse_second_adoption(home: Home, session: ForeignSession) -> None:
    """Raise `Denied` when a run of this home was made of the session."""
    run = next((run for run in await list_runs(home) if _is_of(run, session)), None)
    if run is not None:
        raise Denied(
            f"{run.id} was made of this session of {TOOL_NAMES[session.tool]} before; continue it with: "
            f"holdfast resume {run.id}. To make another run of it, add --again"
        )


def _is_of(run: ListedRun, session: ForeignSession) -> bool:
    summary = run.summary
    if summary.adopted != session.tool:
        return False
    if summary.adopted_path is not None and os.path.realpath(summary.adopted_path) == os.path.realpath(session.path):
        return True
    return session.tool in _UNIQUE_IDS and summary.adopted_session == session.id
