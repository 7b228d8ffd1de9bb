"""Notices for a task's worker about facts that it cannot know: lost files, a changed task."""

from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.fold.handlers.base import on, optional_id
from holdfast.core.log.codec import Line
from holdfast.core.messages.notices import change_key, plan_notice_key, task_text
from holdfast.core.state import RunState
from holdfast.core.task_state import LostWork, Task
from holdfast.core.work.reconciliation import LOSS_REMEDIES


@on(WorkspaceReconciled)
def _workspace_reconciled(state: RunState, line: Line, event: WorkspaceReconciled) -> None:
    """One notice per subject: an event that was written twice because of a crash gives one notice."""
    name = optional_id(event.task)
    task = state.tasks.get(name) if name is not None else None
    if task is None or event.action not in LOSS_REMEDIES or not _was_prompted(state, task):
        return
    task.losses = {key: loss for key, loss in task.losses.items() if loss.subject != event.subject}
    task.losses[f"{event.subject} {line.sid}:{line.seq}"] = LostWork(event.subject, event.message)


def note_change(state: RunState, task: Task, old_text: str) -> None:
    """The plan changed the task. Remember the text that its worker knows, unless it equals the new text."""
    if not _was_prompted(state, task):
        task.before = None
    elif task.before is None:
        task.before = old_text if old_text != task_text(task) else None
    elif task.before == task_text(task):
        task.before = None


def forget_notices(state: RunState, conversation_id: str | None) -> None:
    """The worker has received the notices in the prompts of its last turns."""
    conversation = state.conversations.get(conversation_id) if conversation_id is not None else None
    if conversation is None:
        return
    task = state.tasks.get(conversation.task) if conversation.task is not None else None
    if task is not None:
        task.losses = {key: loss for key, loss in task.losses.items() if key not in conversation.notices}
        task.before = task.before if change_key(task) not in conversation.notices else None
    if state.interview is not None and plan_notice_key(state.interview.revision) in conversation.notices:
        state.interview.unheard = False
    conversation.notices = []


def _was_prompted(state: RunState, task: Task) -> bool:
    worker = state.conversations.get(task.worker) if task.worker is not None else None
    return worker is not None and worker.turns > 0
