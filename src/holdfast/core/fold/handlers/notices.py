"""What a task's worker has to be told because it cannot know it: that its files were lost, that its task changed."""

from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.fold.handlers.base import name_of, on
from holdfast.core.log.codec import Line
from holdfast.core.messages.notices import as_told, change_key
from holdfast.core.state import Loss, RunState, Task
from holdfast.core.work.reconciliation import LOSSES


@on(WorkspaceReconciled)
def _workspace_reconciled(state: RunState, line: Line, event: WorkspaceReconciled) -> None:
    """One notice a subject: what was written twice because of a crash in between is told once."""
    name = name_of(event.task)
    task = state.tasks.get(name) if name is not None else None
    if task is None or event.action not in LOSSES or not _has_been_told(state, task):
        return
    task.losses = {key: loss for key, loss in task.losses.items() if loss.subject != event.subject}
    task.losses[f"{event.subject} {line.sid}:{line.seq}"] = Loss(event.subject, event.message)


def note_change(state: RunState, task: Task, before: str) -> None:
    """The plan has the task now, and had it `before`. Its worker knows it as it was when it was last told of it."""
    if not _has_been_told(state, task):
        task.before = None
    elif task.before is None:
        task.before = before if before != as_told(task) else None
    elif task.before == as_told(task):
        task.before = None


def forget_notices(state: RunState, conversation: str | None) -> None:
    """The worker has heard what the prompts of its last turns said."""
    talk = state.conversations.get(conversation) if conversation is not None else None
    if talk is None:
        return
    task = state.tasks.get(talk.task) if talk.task is not None else None
    if task is not None:
        task.losses = {key: loss for key, loss in task.losses.items() if key not in talk.notices}
        task.before = task.before if change_key(task) not in talk.notices else None
    talk.notices = []


def _has_been_told(state: RunState, task: Task) -> bool:
    worker = state.conversations.get(task.worker) if task.worker is not None else None
    return worker is not None and worker.turns > 0
