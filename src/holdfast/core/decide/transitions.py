"""Changes of state, checked against the tables: every such event is made here.

In a chat the state of a task follows the conversation: it is in progress during a turn, and in review between turns.
Both changes are one append, so no log has one without the other.
"""

from holdfast.core.conversation.states import ENDED_STATES, ConversationState, check_transition
from holdfast.core.events import Event
from holdfast.core.events.chat import TaskStateChanged
from holdfast.core.events.conversation import ConversationStateChanged
from holdfast.core.state import Conversation, RunState
from holdfast.core.task_state import BEGUN_STATUSES, TaskStage, TaskStatus
from holdfast.core.work.task_states import check_task_transition

_TASK_STATUSES = {ConversationState.RUNNING: TaskStatus.IN_PROGRESS, ConversationState.WAITING: TaskStatus.REVIEW}


def conversation_change(
    state: RunState, conversation_id: str, target: ConversationState, reason: str | None = None
) -> list[Event]:
    """The events of a change of a conversation's state; `InvalidTransition` when its table has no such change.

    None when it is in that state, and has not ended.
    """
    conversation = state.conversations[conversation_id]
    if conversation.state == target and target not in ENDED_STATES:
        return []
    check_transition(conversation_id, conversation.state, target)
    changed = ConversationStateChanged(conversation=conversation_id, state=target, reason=reason)
    return [changed, *task_follows(state, conversation.task, target)]


def task_change(state: RunState, task_id: str, target: TaskStatus, reason: str | None = None) -> list[Event]:
    """The event of a change between `in_progress` and `review`; none when the task is in that state."""
    current = state.tasks[task_id].status
    if current is target:
        return []
    check_task_transition(task_id, current, target)
    return [TaskStateChanged(task_id=task_id, state=target.lower(), reason=reason)]


def _conversations_of(state: RunState, task_id: str) -> list[Conversation]:
    return [conversation for conversation in state.conversations.values() if conversation.task == task_id]


def task_follows(state: RunState, task_id: str | None, target: ConversationState) -> list[Event]:
    """The change of a chat's task that goes with a change of its conversation."""
    task = state.tasks.get(task_id or "")
    if not state.is_chat or task is None or task_id is None or target not in _TASK_STATUSES:
        return []
    if task.stage is not TaskStage.WORK or task.status not in BEGUN_STATUSES:
        return []  # it is being accepted, or over
    if target is ConversationState.WAITING and not any(
        conversation.turns for conversation in _conversations_of(state, task_id)
    ):
        return []  # its first prompt follows
    return task_change(state, task_id, _TASK_STATUSES[target])
