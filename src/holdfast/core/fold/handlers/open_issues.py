"""Which issues and warnings still stand."""

from holdfast.core.events import Event
from holdfast.core.events.issue import BlockerReported
from holdfast.core.log.codec import Line, data_of
from holdfast.core.state import KEPT, Issue, RunState, TaskStatus


def keep(state: RunState, kept: list[Issue], line: Line, issue: Issue) -> None:
    """Not what an older session still writes, nor what stands later in the file but came before the checkpoint."""
    last = state.checkpoints[-1] if state.checkpoints else None
    passed = last is not None and last.sid == line.sid and line.seq < last.seq
    if is_newest(state, line.sid) and not passed:
        kept.append(issue)
        del kept[:-KEPT]


def holds_up_a_task(state: RunState, issue: Issue) -> bool:
    """It does until that task goes on, whatever else of the run comes to its end meanwhile."""
    if state.run is None or state.plan is None or issue.task not in state.plan.order or issue.task not in state.tasks:
        return False
    status = state.tasks[issue.task].status
    blocked = status is TaskStatus.IN_PROGRESS and issue.type == BlockerReported.type
    return blocked or status is TaskStatus.FAILED


def is_newest(state: RunState, sid: str) -> bool:
    return sid == next(reversed(state.sessions))


def issue_of(state: RunState, line: Line, event: Event, task: str | None = None) -> Issue:
    worker = state.agents.get(line.agent) if line.agent is not None else None
    if task is None and worker is not None:
        task = worker.task
    return Issue(event.type, line.seq, line.agent, task, detail=data_of(line), sid=line.sid)
