"""Handlers of chat events: accepted work, chosen options, permanent permissions, edited messages."""

from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.events.chat import (
    IterationAccepted,
    MessageDeleted,
    MessageEdited,
    OptionChosen,
    RuleAdded,
    RuleRevoked,
    TaskAccepted,
    TaskStateChanged,
)
from holdfast.core.fold.handlers.base import on
from holdfast.core.fold.handlers.conversations import close_request
from holdfast.core.fold.handlers.tasks import next_iteration
from holdfast.core.log.codec import DECODE_ERRORS, Line
from holdfast.core.state import PermissionRule, RunState
from holdfast.core.task_index import drop_task_index, note_status
from holdfast.core.task_state import Task, TaskStage, TaskStatus

_STATUSES = {status.lower(): status for status in (TaskStatus.IN_PROGRESS, TaskStatus.REVIEW)}


@on(TaskStateChanged)
def _task_state_changed(state: RunState, _: Line, event: TaskStateChanged) -> None:
    task = _task(state, event.task_id)
    before, task.status = task.status, _STATUSES.get(event.state, task.status)
    note_status(state, str(event.task_id), before, task.status)


@on(TaskAccepted)
def _task_accepted(state: RunState, _: Line, event: TaskAccepted) -> None:
    task = _task(state, event.task_id)
    task.stage, task.case, task.reason, task.recheck = TaskStage.VALIDATE, None, None, None
    task.finishing = event.finish


@on(IterationAccepted)
def _iteration_accepted(state: RunState, _: Line, event: IterationAccepted) -> None:
    """The next iteration starts without the results of this one, and without a request that met a limit."""
    task = _task(state, event.task_id)
    worker = state.conversations.get(task.worker or "")
    if task.worker is not None and worker is not None and worker.limited:
        close_request(state, task.worker, worker)
    next_iteration(state, task)
    task.accepted += 1
    task.commit = task.tree = task.head = task.merging = task.unchecked = task.hook_refused = None
    task.conflicts, task.checks, task.conflicted, task.refused = [], [], 0, 0


@on(OptionChosen)
def _option_chosen(state: RunState, _: Line, event: OptionChosen) -> None:
    conversation = state.conversations.get(event.conversation)
    if conversation is None:
        return
    conversation.options = {name: value for name, value in conversation.options.items() if name != event.option}
    if event.value is not None:
        conversation.options[event.option] = event.value


@on(RuleAdded)
def _rule_added(state: RunState, _: Line, event: RuleAdded) -> None:
    state.rules[event.rule] = PermissionRule(event.kind, event.command, tuple(event.paths), event.by)


@on(RuleRevoked)
def _rule_revoked(state: RunState, _: Line, event: RuleRevoked) -> None:
    state.rules.pop(event.rule, None)


@on(MessageEdited)
def _message_edited(state: RunState, _: Line, event: MessageEdited) -> None:
    message = state.messages.get(event.message)
    if message is None:
        return
    with suppress(*DECODE_ERRORS):
        body: Any = msgspec.json.decode(message.body)
        if isinstance(body, dict):
            message.body = msgspec.json.encode({**body, "text": event.text}).decode()


@on(MessageDeleted)
def _message_deleted(state: RunState, _: Line, event: MessageDeleted) -> None:
    state.messages.pop(event.message, None)


def _task(state: RunState, task_id: str | int) -> Task:
    if str(task_id) not in state.tasks:
        drop_task_index(state)
    return state.tasks.setdefault(str(task_id), Task())
