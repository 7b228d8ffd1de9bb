"""The phases and tasks of a run, wave by wave: dependencies, status and verdicts."""

from collections.abc import Iterator

from holdfast.app.text.screen import pluralize, printable, status_colour
from holdfast.app.text.spans import Row, Span
from holdfast.core.end_reason import end_reason_text
from holdfast.core.phase_state import Approval
from holdfast.core.state import RunState
from holdfast.core.task_state import Task, TaskStatus, Wave

MAX_ROWS = 30


def phase_rows(state: RunState) -> Iterator[Row]:
    """Yield one row per phase so far, newest last."""
    for name, phase in state.phases.items():
        round_text = f", round {phase.round}" if phase.round > 1 else ""
        approval = ", waits for your approval" if phase.approval is Approval.ASKED and name == state.phase else ""
        result = printable(phase.outcome or phase.reason or "")
        status = Span(f"  {phase.status.lower():12}  ", status_colour(phase.status))
        yield [status, Span(f"{printable(name)}{round_text}{approval}{f': {result}' if result else ''}")]


def task_rows(state: RunState, max_rows: int = MAX_ROWS) -> Iterator[Row]:
    """Yield one row per task; tasks in no wave come last."""
    waves = state.plan.waves if state.plan is not None else {}
    in_waves = {name for wave in waves.values() for name in wave.task_ids}
    left = max_rows
    if len(waves) > 1:
        for number, wave in sorted(waves.items()):
            names = [name for name in wave.task_ids if name in state.tasks][:left]
            if not names:
                continue
            yield [Span(f"  wave {number}"), _wave_status(wave)]
            yield from ([Span("  "), *_task_row(state, name)] for name in names)
            left -= len(names)
    else:
        in_waves = set()
    for name in [name for name in state.tasks if name not in in_waves][:left]:
        yield _task_row(state, name)
    if len(state.tasks) > max_rows:
        yield [Span(f"  … and {len(state.tasks) - max_rows} more (--json has them all)")]


def _wave_status(wave: Wave) -> Span:
    if wave.completed:
        return Span("  done", "green")
    return Span("  in progress", "yellow") if wave.started else Span("")


def _task_row(state: RunState, task_id: str) -> Row:
    task = state.tasks[task_id]
    about = (task.error and end_reason_text(task.error)) or task.reason or task.summary or ""
    facts = "; ".join(task_facts(state, task_id, task))
    status = Span(f"{task.status:11}", status_colour(task.status))
    row = [Span(f"  {printable(task_id):8}  "), status, Span(f"  {printable(about)}" if about else "")]
    return [*row, Span("  "), Span(f"[{printable(facts)}]", "dim")] if facts else row


def task_facts(state: RunState, task_id: str, task: Task) -> Iterator[str]:
    """Yield what matters about a task besides its status."""
    needed = state.plan.blocked_by.get(task_id) if state.plan is not None else None
    if needed and task.status is TaskStatus.PENDING:
        yield f"after {', '.join(needed)}"
    if task.status is TaskStatus.IN_PROGRESS:
        yield f"{task.stage}{f', iteration {task.iteration}' if task.iteration > 1 else ''}"
    failed = [check.name for check in task.checks if check.is_failure]
    if failed and task.status is not TaskStatus.COMPLETE:
        yield f"checks failed: {', '.join(failed)}"
    if task.verdicts:
        last = task.verdicts[-1]
        reason = f": {last.category or last.concern}" if not last.accept and (last.category or last.concern) else ""
        count = f" after {pluralize(len(task.verdicts), 'verdict')}" if len(task.verdicts) > 1 else ""
        yield f"{'accepted' if last.accept else 'rejected'}{count}{reason}"
    if task.conflicts:
        yield f"conflicts in {', '.join(task.conflicts)}"
    if task.commit:
        yield f"commit {task.commit[:10]}"
