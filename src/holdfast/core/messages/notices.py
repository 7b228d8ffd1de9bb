"""Notices: what a task's worker is told because it cannot know it. By its key the log says that one was told."""

from holdfast.core.state import Task


def change_key(task: Task) -> str:
    """Of the notice that the task changed, to what it is now."""
    return f"task {task.key}"


def as_told(task: Task) -> str:
    """The task, in the words by which a change of it is told."""
    criteria = "\n".join(f"- {one}" for one in task.acceptance_criteria)
    return "\n\n".join(part for part in (task.summary, task.description, criteria) if part)
