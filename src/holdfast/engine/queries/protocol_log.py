"""A run as a log of the Resume Protocol, for the tools that continue such logs.

Those tools read one session. So the run becomes one: its sessions follow each other under one id and one numbering.
It has no end while work is left, because that is how they know that there is something to resume.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from holdfast.core.decide.resume import ResumeCase
from holdfast.core.events.agent import AgentCompleted, AgentSpawned
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted
from holdfast.core.log.codec import Line, data_of
from holdfast.core.state import RunState
from holdfast.core.task_state import TaskStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import ALL_EVENTS, RunView, read_log, view_run

_TYPES = frozenset(
    kind.type
    for kind in (
        PlanCreated,
        TaskStarted,
        TaskCompleted,
        TaskFailed,
        AgentSpawned,
        AgentCompleted,
        Checkpoint,
        ErrorEncountered,
        BlockerReported,
        WarningLogged,
        BranchCreated,
        BranchMerged,
    )
)


async def protocol_lines(home: Home, run_id: str) -> AsyncIterator[bytes]:
    """Yield the lines of the log, each with its newline."""
    view = await view_run(home, run_id)
    head = {"v": 1, "ts": None, "sid": view.analysis.sid or run_id, "seq": 0, "type": ""}
    head |= {"feature": view.state.feature or run_id, "agent": None}
    seq = 0
    last: str | None = None
    async for item in read_log(home, run_id, ALL_EVENTS):
        line = item.line
        if not isinstance(line, Line):
            continue
        last = line.ts or last
        data = _data(line, view, seq)
        if data is not None:
            yield _line({**head, "ts": line.ts, "agent": line.agent}, seq, line.type, data)
            seq += 1
    if view.analysis.decision.case is ResumeCase.COMPLETE:
        yield _line({**head, "ts": last}, seq, SessionEnd.type, {"reason": "completed", "summary": None})


def _data(line: Line, view: RunView, seq: int) -> dict[str, Any] | None:
    """The data of an event as the protocol has it; None for one that it does not know, or that is settled."""
    data, state = data_of(line), view.state
    if line.type == SessionStart.type and seq == 0:
        return {**data, "command": "implement", "feature": state.feature or view.run_id}
    if line.type not in _TYPES:
        return None
    if line.type == TaskFailed.type and not _has_failed(state, data.get("taskId")):
        return None  # it was retried or skipped since
    if line.type == ErrorEncountered.type and data.get("retried"):
        return {**data, "resolved": True}
    return data


def _has_failed(state: RunState, task_id: object) -> bool:
    task = state.tasks.get(str(task_id))
    return task is not None and task.status is TaskStatus.FAILED


def _line(head: dict[str, Any], seq: int, kind: str, data: dict[str, Any]) -> bytes:
    return msgspec.json.encode({**head, "seq": seq, "type": kind, "pane_id": None, "data": data}) + b"\n"
