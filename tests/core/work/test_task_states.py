"""The statuses of a task, as a table."""

from itertools import product

import pytest

from holdfast.core.task_state import TaskStatus
from holdfast.core.work.task_states import InvalidTaskTransition, check_task_transition

ALLOWED = {
    ("PENDING", "IN_PROGRESS"),
    ("PENDING", "SKIPPED"),
    ("PENDING", "FAILED"),
    ("IN_PROGRESS", "REVIEW"),
    ("IN_PROGRESS", "COMPLETE"),
    ("IN_PROGRESS", "FAILED"),
    ("IN_PROGRESS", "SKIPPED"),
    ("IN_PROGRESS", "PENDING"),
    ("REVIEW", "IN_PROGRESS"),
    ("REVIEW", "COMPLETE"),
    ("REVIEW", "FAILED"),
    ("REVIEW", "SKIPPED"),
    ("REVIEW", "PENDING"),
    ("COMPLETE", "PENDING"),
    ("FAILED", "PENDING"),
    ("FAILED", "SKIPPED"),
    ("SKIPPED", "PENDING"),
}


@pytest.mark.parametrize(("now", "then"), list(product(TaskStatus, TaskStatus)))
def test_task_changes_as_the_table_says(now: TaskStatus, then: TaskStatus) -> None:
    if (now.value, then.value) in ALLOWED:
        check_task_transition("T-1", now, then)
    else:
        with pytest.raises(InvalidTaskTransition, match=f"T-1 is {now.lower()} and cannot become {then.lower()}"):
            check_task_transition("T-1", now, then)
