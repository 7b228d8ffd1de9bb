"""Notices: facts that a task's worker cannot know. The log records delivered notices by their keys."""

from holdfast.core.task_state import Task


def change_key(task: Task) -> str:
    """The key of the notice that the task changed to its current text."""
    return f"task {task.key}"


def plan_notice_key(revision: int) -> str:
    """The key of the notice that the user changed the plan of an interview."""
    return f"plan {revision}"


def task_text(task: Task) -> str:
    """The task's text, as notices of a change quote it."""
    criteria = "\n".join(f"- {criterion}" for criterion in task.acceptance_criteria)
    return "\n\n".join(part for part in (task.summary, task.description, criteria) if part)
