"""The tasks of a run: wave by wave, with what each waits for, where it stands, and how it was judged."""

from collections.abc import Iterator

from holdfast.app.text.screen import counted, plain, status_colour
from holdfast.app.text.spans import Row, Span
from holdfast.core.state import Approval, RunState, Task, TaskStatus, Wave

MOST = 30


def phase_rows(state: RunState) -> Iterator[Row]:
    """A line a phase that there was, the newest last."""
    for name, phase in state.phases.items():
        times = f", round {phase.round}" if phase.round > 1 else ""
        asked = ", asks for your approval" if phase.approval is Approval.ASKED and name == state.phase else ""
        came = plain(phase.outcome or phase.reason or "")
        how = Span(f"  {phase.status.lower():12}  ", status_colour(phase.status))
        yield [how, Span(f"{plain(name)}{times}{asked}{f': {came}' if came else ''}")]


def task_tree(state: RunState, most: int = MOST) -> Iterator[Row]:
    """A line a task; those that are in no wave come last."""
    waves = state.plan.waves if state.plan is not None else {}
    in_waves = {name for wave in waves.values() for name in wave.task_ids}
    left = most
    if len(waves) > 1:
        for number, wave in sorted(waves.items()):
            names = [name for name in wave.task_ids if name in state.tasks][:left]
            if not names:
                continue
            yield [Span(f"  wave {number}"), _how_far(wave)]
            yield from ([Span("  "), *_row(state, name)] for name in names)
            left -= len(names)
    else:
        in_waves = set()
    for name in [name for name in state.tasks if name not in in_waves][:left]:
        yield _row(state, name)
    if len(state.tasks) > most:
        yield [Span(f"  … and {len(state.tasks) - most} more (--json has them all)")]


def _how_far(wave: Wave) -> Span:
    if wave.completed:
        return Span("  done", "green")
    return Span("  at work", "yellow") if wave.started else Span("")


def _row(state: RunState, name: str) -> Row:
    task = state.tasks[name]
    about = task.error or task.reason or task.summary or ""
    facts = "; ".join(facts_of(state, name, task))
    status = Span(f"{task.status:11}", status_colour(task.status))
    row = [Span(f"  {plain(name):8}  "), status, Span(f"  {plain(about)}" if about else "")]
    return [*row, Span("  "), Span(f"[{plain(facts)}]", "dim")] if facts else row


def facts_of(state: RunState, name: str, task: Task) -> Iterator[str]:
    """What is worth knowing of a task beyond its status."""
    needed = state.plan.blocked_by.get(name) if state.plan is not None else None
    if needed and task.status is TaskStatus.PENDING:
        yield f"after {', '.join(needed)}"
    if task.status is TaskStatus.IN_PROGRESS:
        yield f"{task.stage}{f', iteration {task.iteration}' if task.iteration > 1 else ''}"
    failed = [check.name for check in task.checks if not check.passed]
    if failed and task.status is not TaskStatus.COMPLETE:
        yield f"checks failed: {', '.join(failed)}"
    if task.verdicts:
        last = task.verdicts[-1]
        why = f": {last.category or last.concern}" if not last.accept and (last.category or last.concern) else ""
        how_often = f" after {counted(len(task.verdicts), 'verdict')}" if len(task.verdicts) > 1 else ""
        yield f"{'accepted' if last.accept else 'rejected'}{how_often}{why}"
    if task.conflicts:
        yield f"conflicts in {', '.join(task.conflicts)}"
    if task.commit:
        yield f"commit {task.commit[:10]}"
