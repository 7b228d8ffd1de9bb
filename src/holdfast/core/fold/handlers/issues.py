"""Checkpoints, and what went wrong since."""

from bisect import insort

from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.fold.handlers.base import name_of, on
from holdfast.core.fold.handlers.inbox import acted_on
from holdfast.core.fold.handlers.open_issues import holds_up_a_task, is_newest, issue_of, keep
from holdfast.core.log.codec import Line, data_of
from holdfast.core.state import CheckpointReached, Issue, RunState


@on(Checkpoint)
def _checkpoint(state: RunState, line: Line, event: Checkpoint) -> None:
    reached = CheckpointReached(
        line.sid,
        line.seq,
        event.label,
        event.branch,
        event.commit,
        event.plan_step,
        event.resumable,
        ts=line.ts,
    )
    order = {sid: rank for rank, sid in enumerate(state.sessions)}
    insort(state.checkpoints, reached, key=lambda point: (order[point.sid], point.seq))
    if is_newest(state, line.sid):
        state.issues = [
            issue
            for issue in state.issues
            if (issue.sid == line.sid and issue.seq > line.seq) or holds_up_a_task(state, issue)
        ]
        state.warnings = [w for w in state.warnings if w.sid == line.sid and w.seq > line.seq]


@on(ErrorEncountered)
def _error_encountered(state: RunState, line: Line, event: ErrorEncountered) -> None:
    if not event.resolved:
        keep(state, state.warnings if event.retried else state.issues, line, issue_of(state, line, event))
        return
    same = {"file": event.file, "error": event.error}

    def stands(issue: Issue) -> bool:
        return issue.type != event.type or {key: issue.detail.get(key) for key in same} != same

    state.issues, state.warnings = ([i for i in kept if stands(i)] for kept in (state.issues, state.warnings))


@on(BlockerReported)
def _blocker_reported(state: RunState, line: Line, event: BlockerReported) -> None:
    said = data_of(line)
    found = issue_of(state, line, event, task=name_of(event.task_id or said.get("taskId") or said.get("task")))
    if not event.resolved:
        keep(state, state.issues, line, found)
        task = state.tasks.get(found.task or "")
        acted_on(state, task.worker if task is not None else None)
        return
    same = (event.type, found.task, event.description)
    state.issues = [i for i in state.issues if (i.type, i.task, i.detail.get("description")) != same]


@on(WarningLogged)
def _warning_logged(state: RunState, line: Line, event: WarningLogged) -> None:
    keep(state, state.warnings, line, issue_of(state, line, event))
