"""Which issues and warnings are still open."""

from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported
from holdfast.core.log.codec import Line, data_of
from holdfast.core.state import MAX_KEPT, Issue, RunState
from holdfast.core.task_index import task_index
from holdfast.core.task_state import BEGUN_STATUSES, TaskStatus


def add_issue(state: RunState, issues: list[Issue], line: Line, issue: Issue) -> None:
    """Add an issue, unless an older session wrote it or its sequence number is before the last checkpoint."""
    last = state.checkpoints[-1] if state.checkpoints else None
    passed = last is not None and last.sid == line.sid and line.seq < last.seq
    if is_newest_session(state, line.sid) and not passed:
        issues.append(issue)
        del issues[:-MAX_KEPT]


def blocks_task(state: RunState, issue: Issue) -> bool:
    """Whether an issue still blocks its task. It does until the task continues, whatever else completes meanwhile."""
    if state.run is None or issue.task not in state.tasks or not task_index(state).is_planned(issue.task):
        return False
    status = state.tasks[issue.task].status
    blocked = status in BEGUN_STATUSES and issue.type == BlockerReported.type
    return blocked or status is TaskStatus.FAILED


def is_newest_session(state: RunState, sid: str) -> bool:
    return sid == next(reversed(state.sessions))


def issue_from_event(state: RunState, line: Line, event: Event, task_id: str | None = None) -> Issue:
    worker = state.agents.get(line.agent) if line.agent is not None else None
    if task_id is None and worker is not None:
        task_id = worker.task
    return Issue(event.type, line.seq, line.agent, task_id, detail=data_of(line), sid=line.sid)
