"""The statuses of a task, and which may follow which. Pure."""

from holdfast.core.task_state import TaskStatus
from holdfast.leaf.errors import Denied

_TRANSITIONS: dict[TaskStatus, frozenset[TaskStatus]] = {
    TaskStatus.PENDING: frozenset({TaskStatus.IN_PROGRESS, TaskStatus.SKIPPED, TaskStatus.FAILED}),
    TaskStatus.IN_PROGRESS: frozenset(
        {TaskStatus.REVIEW, TaskStatus.COMPLETE, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.PENDING}
    ),
    TaskStatus.REVIEW: frozenset(
        {TaskStatus.IN_PROGRESS, TaskStatus.COMPLETE, TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.PENDING}
    ),
    TaskStatus.COMPLETE: frozenset({TaskStatus.PENDING}),
    TaskStatus.FAILED: frozenset({TaskStatus.PENDING, TaskStatus.SKIPPED}),
    TaskStatus.SKIPPED: frozenset({TaskStatus.PENDING}),
}


class InvalidTaskTransition(Denied):
    """A task cannot change from its status to the requested one."""


def check_task_transition(task_id: str, current: TaskStatus, target: TaskStatus) -> None:
    """Raise `InvalidTaskTransition` unless a task may change from one status to another."""
    if target not in _TRANSITIONS[current]:
        allowed = ", ".join(status.lower() for status in _TRANSITIONS[current])
        raise InvalidTaskTransition(
            f"task {task_id} is {current.lower()} and cannot become {target.lower()}; it can become {allowed}"
        )
