"""Summarizes the result of a run for its approval and for its pull request."""

from holdfast.core.state import RunState
from holdfast.core.task_state import Task, TaskStatus


def summary_of(state: RunState) -> str:
    goal = state.run.goal if state.run is not None else ""
    tasks = [(name, state.tasks[name]) for name in (state.plan.order if state.plan is not None else [])]
    parts = [
        f"# {(goal.strip().splitlines() or ['Summary'])[0]}",
        "## What was done",
        "\n".join(_task_line(name, task) for name, task in tasks) or "No task was done.",
        *_review_section(state),
    ]
    return "\n\n".join(parts) + "\n"


def _task_line(task_id: str, task: Task) -> str:
    how = "" if task.status is TaskStatus.COMPLETE else f" ({task.status.lower()})"
    return f"- **{task_id}**{how}: {task.summary or task_id}"


def _review_section(state: RunState) -> list[str]:
    rows = [
        f"- {role}: {'passed' if review.passed else 'did not pass'}. {review.summary}"
        for phase in state.phases.values()
        for role, review in phase.reviews.items()
    ]
    return ["## What reviewers said", "\n".join(rows)] if rows else []
