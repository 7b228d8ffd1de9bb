"""What a chat does next, chosen from its state alone: it acts when its user has said something, and waits otherwise.

Messages are handled in the order in which they arrived: accepting the work means the work of the messages before it.
Each task has one worktree, in which one agent works at a time. An interrupted turn waits for its user too; the next
message continues it. A turn that met a limit of the agent's provider is continued when that is over.
"""

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.decide.actions import NOTHING_IN_PROGRESS, Action, ActionKind, PromptKind, RuntimeFacts
from holdfast.core.decide.paused import is_paused, wait_or_park
from holdfast.core.decide.tasks import exceeded_cap
from holdfast.core.end_reason import EndReason
from holdfast.core.messages.schema import PROMPT_KINDS, MessageKind
from holdfast.core.state import EffectStatus, OpenMessage, RunState
from holdfast.core.task_state import BEGUN_STATUSES, Task, TaskStage, TaskStatus
from holdfast.core.work.workflow import Bounds, Workflow

PEER = "peer"  # the role of another agent in the worktree of a task

_DELIVERED_KINDS = (*PROMPT_KINDS, MessageKind.ADD_CONVERSATION)
_QUEUED_KINDS = (*_DELIVERED_KINDS, MessageKind.ACCEPT, MessageKind.RESUME_CONVERSATION)
STARTING_KINDS = frozenset({*_QUEUED_KINDS, MessageKind.EDIT_PLAN})  # messages for which a runner is started
OVER_STATUSES = (TaskStatus.COMPLETE, TaskStatus.SKIPPED, TaskStatus.FAILED)


_CHAT = Workflow(name="chat", about="", chat=True)


class _View(NamedTuple):
    state: RunState
    facts: RuntimeFacts


def decide_chat(state: RunState, bounds: Bounds, facts: RuntimeFacts = NOTHING_IN_PROGRESS) -> list[Action]:
    """All actions that can start now. Empty while everything is in progress, or while it waits for its user."""
    view, is_over = _View(state, facts), is_chat_over(state)
    limit = exceeded_cap(state, bounds, facts)
    if limit is not None and not is_over:
        return [Action(ActionKind.STOP, reason=limit)]
    found = [*_actions(view)]
    actions = [action for action in found if not is_paused(state, _CHAT, facts, action)]
    if actions or facts.busy:
        return actions
    if any(_has_unknown_effect(state, task_id) for task_id in state.tasks):
        return [Action(ActionKind.STOP, reason=EndReason.WAITING)]
    if facts.stuck:
        return [Action(ActionKind.STOP, reason=EndReason.PARKED)]
    if found:
        return wait_or_park(state, _CHAT, facts, found)
    if is_over:
        return [Action(ActionKind.STOP, reason=EndReason.ALL_DONE)]
    return [Action(ActionKind.STOP, reason=EndReason.IDLE)] if facts.idle_s >= bounds.idle else []


def is_chat_over(state: RunState) -> bool:
    return bool(state.tasks) and all(task.status in OVER_STATUSES for task in state.tasks.values())


def has_work_to_do(state: RunState) -> bool:
    """Whether a chat would do something now. A chat that only waits is not resumed until its user comes back."""
    waits = (Action(ActionKind.STOP, reason=EndReason.IDLE), Action(ActionKind.STOP, reason=EndReason.ALL_DONE))
    return not all(action in waits for action in decide_chat(state, Bounds()))


def has_undone_request(state: RunState) -> bool:
    """Whether a person asked for something that a runner has to do: a message, the first one too, or a merge.

    An interrupted turn is none: it waits for its user. Nor is a first message whose turn was rewound.
    """
    found = (
        _task_action(state, task_id, task)
        for task_id, task in state.tasks.items()
        if not _has_unknown_effect(state, task_id) and not _is_first_turn_rewound(state, task_id, task)
    )
    return any(action is not None and action.kind is not ActionKind.AWAIT_USER for action in found)


def _is_first_turn_rewound(state: RunState, task_id: str, task: Task) -> bool:
    """Whether the first message is due again only because a person took its turn back, and said nothing since."""
    is_due = task.status not in OVER_STATUSES and is_first_prompt_due(state, task)
    return bool(state.rewinds) and is_due and not queued_messages(state, task_id)


def open_conversations(state: RunState, task_id: str) -> list[str]:
    """The conversations of a task that have not ended."""
    found = state.conversations.items()
    return [
        key for key, conversation in found if conversation.task == task_id and conversation.state not in ENDED_STATES
    ]


def queued_messages(state: RunState, task_id: str) -> list[str]:
    """What waits for a task: messages, and requests to accept its work or to start an agent. The oldest first."""
    main = main_task(state)
    found = state.messages.items()
    return [
        key for key, message in found if message.kind in _QUEUED_KINDS and _task_of(state, message, main) == task_id
    ]


def next_prompt(state: RunState, task_id: str, conversation_id: str | None) -> list[str]:
    """The messages that the next prompt of a conversation delivers: those before the work is to be accepted."""
    found: list[str] = []
    for key in queued_messages(state, task_id):
        message = state.messages[key]
        if message.kind == MessageKind.ACCEPT:
            break
        if message.kind in _DELIVERED_KINDS and receiver_of(state, task_id, message) == conversation_id:
            found.append(key)
    return found


def receiver_of(state: RunState, task_id: str, message: OpenMessage) -> str | None:
    """The conversation that a message is for; None when the task has to get a new one."""
    if message.conversation is not None:
        return message.conversation
    task = state.tasks.get(task_id) or Task()
    worker = state.conversations.get(task.worker or "")
    return task.worker if worker is not None and worker.state not in ENDED_STATES else None


def main_task(state: RunState) -> str | None:
    """The task that messages without an address are for: the first that is not over, else the first."""
    order = state.plan.order if state.plan is not None else []
    unfinished = (name for name in order if name in state.tasks and state.tasks[name].status not in OVER_STATUSES)
    return next(unfinished, next(iter(order), None))


def interview_task(state: RunState) -> str | None:
    """The task of an interview: its first."""
    return next(iter(state.plan.order if state.plan is not None else []), None)


def _task_of(state: RunState, message: OpenMessage, main: str | None) -> str | None:
    if message.conversation is not None:
        conversation = state.conversations.get(message.conversation)
        return conversation.task if conversation is not None else None
    return message.task if message.task is not None else main


def _actions(view: _View) -> Iterator[Action]:
    """The next action of each task, also of one whose agent gets no prompt now. Merges happen one at a time."""
    state, facts = view.state, view.facts
    busy = (state.tasks.get(name) for name in facts.busy_tasks)
    merging = any(task is not None and task.stage is TaskStage.MERGE for task in busy)
    for task_id, task in state.tasks.items():
        if facts.is_busy(task_id) or facts.is_stuck(task_id) or _has_unknown_effect(state, task_id):
            continue
        action = _task_action(state, task_id, task)
        if action is None or (merging and action.kind is ActionKind.MERGE):
            continue
        merging = merging or action.kind is ActionKind.MERGE
        yield action


def _task_action(state: RunState, task_id: str, task: Task) -> Action | None:
    if state.interview is not None and state.interview.is_accepted and task_id == interview_task(state):
        return Action(ActionKind.PREPARE_RUN, task_id)
    if task.status is TaskStatus.PENDING:
        return Action(ActionKind.START, task_id)
    if task.status in BEGUN_STATUSES:
        return _between_turns(state, task_id, task) if task.stage is TaskStage.WORK else _accepting(task_id, task)
    return _after_the_end(state, task_id)


def _after_the_end(state: RunState, task_id: str) -> Action | None:
    if open_conversations(state, task_id):
        return Action(ActionKind.END_CONVERSATIONS, task_id)
    queue = queued_messages(state, task_id)
    if not queue:
        return None
    if state.messages[queue[0]].kind in _DELIVERED_KINDS:
        return Action(ActionKind.REOPEN, task_id, reason="there is a message for it")
    return Action(ActionKind.ACCEPT, task_id)  # there is nothing to accept any more


def _accepting(task_id: str, task: Task) -> Action:
    match task.stage:
        case TaskStage.VALIDATE:
            return Action(ActionKind.VALIDATE, task_id)
        case TaskStage.MERGE:
            return Action(ActionKind.MERGE, task_id)
        case TaskStage.COMPLETE:
            return Action(ActionKind.COMPLETE if task.finishing else ActionKind.NEXT_ITERATION, task_id)
        case _:
            return Action(ActionKind.COMMIT, task_id)


def _between_turns(state: RunState, task_id: str, task: Task) -> Action | None:
    if is_first_prompt_due(state, task):
        return Action(ActionKind.CONVERSE, task_id, PromptKind.BEGIN, conversation=task.worker)
    queue = queued_messages(state, task_id)
    if queue:
        message = state.messages[queue[0]]
        if message.kind == MessageKind.ACCEPT:
            return Action(ActionKind.ACCEPT_PLAN if state.is_interview else ActionKind.ACCEPT, task_id)
        receiver = receiver_of(state, task_id, message)
        if message.kind == MessageKind.RESUME_CONVERSATION:
            return Action(ActionKind.RESUME_AGENT, task_id, conversation=receiver)
        return Action(ActionKind.CONVERSE, task_id, PromptKind.MESSAGE, conversation=receiver)
    for conversation_id in open_conversations(state, task_id):
        if state.conversations[conversation_id].limited:
            return Action(ActionKind.CONVERSE, task_id, PromptKind.CONTINUE, conversation=conversation_id)
    return Action(ActionKind.AWAIT_USER, task_id) if task.status is TaskStatus.IN_PROGRESS else None


def is_first_prompt_due(state: RunState, task: Task) -> bool:
    """Whether the task's own text, which is the first message of the chat, was never sent."""
    worker = state.conversations.get(task.worker or "")
    if worker is None:
        return True
    return worker.turns == 0 and worker.state not in ENDED_STATES and not _had_another_worker(state, task)


def _had_another_worker(state: RunState, task: Task) -> bool:
    """Whether an earlier conversation had the first message, before the chat was finished and reopened."""
    worker = state.conversations[task.worker or ""]
    earlier = (conversation for key, conversation in state.conversations.items() if key != task.worker)
    return any(
        conversation.task == worker.task and conversation.role == worker.role and conversation.turns > 0
        for conversation in earlier
    )


def _has_unknown_effect(state: RunState, task_id: str) -> bool:
    return any(left.task == task_id and left.status is EffectStatus.UNKNOWN for left in state.effects.values())
