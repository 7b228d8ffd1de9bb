"""Handlers of checkpoints, and of issues since the last one."""

from bisect import insort

from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.fold.handlers.base import on, optional_id
from holdfast.core.fold.handlers.inbox import mark_delivered
from holdfast.core.fold.handlers.open_issues import add_issue, blocks_task, is_newest_session, issue_from_event
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
    _insert_checkpoint(state, reached)
    if is_newest_session(state, line.sid):
        state.issues = [
            issue
            for issue in state.issues
            if (issue.sid == line.sid and issue.seq > line.seq) or blocks_task(state, issue)
        ]
        state.warnings = [w for w in state.warnings if w.sid == line.sid and w.seq > line.seq]


def _insert_checkpoint(state: RunState, reached: CheckpointReached) -> None:
    """Insert by session, then by sequence number. Nearly always it is the newest."""
    last = state.checkpoints[-1] if state.checkpoints else None
    if last is None or (last.sid == reached.sid and last.seq <= reached.seq):
        state.checkpoints.append(reached)
    else:
        ranks = {sid: rank for rank, sid in enumerate(state.sessions)}
        insort(state.checkpoints, reached, key=lambda point: (ranks[point.sid], point.seq))


@on(ErrorEncountered)
def _error_encountered(state: RunState, line: Line, event: ErrorEncountered) -> None:
    if not event.resolved:
        add_issue(state, state.warnings if event.retried else state.issues, line, issue_from_event(state, line, event))
        return
    same = {"file": event.file, "error": event.error}

    def stands(issue: Issue) -> bool:
        return issue.type != event.type or {key: issue.detail.get(key) for key in same} != same

    state.issues, state.warnings = ([i for i in kept if stands(i)] for kept in (state.issues, state.warnings))


@on(BlockerReported)
def _blocker_reported(state: RunState, line: Line, event: BlockerReported) -> None:
    data = data_of(line)
    found = issue_from_event(
        state, line, event, task_id=optional_id(event.task_id or data.get("taskId") or data.get("task"))
    )
    if not event.resolved:
        add_issue(state, state.issues, line, found)
        task = state.tasks.get(found.task or "")
        mark_delivered(state, task.worker if task is not None else None)
        return
    same = (event.type, found.task, event.description)
    state.issues = [i for i in state.issues if (i.type, i.task, i.detail.get("description")) != same]


@on(WarningLogged)
def _warning_logged(state: RunState, line: Line, event: WarningLogged) -> None:
    add_issue(state, state.warnings, line, issue_from_event(state, line, event))
