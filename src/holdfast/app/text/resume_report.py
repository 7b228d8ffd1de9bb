"""The Resume Protocol's reports as text for a terminal."""

from collections.abc import Iterator

from holdfast.app.text.screen import format_time, paint, paint_status, pluralize, printable
from holdfast.core.decide.analysis import Analysis, SeqGap
from holdfast.core.decide.resume import NOTHING_LEFT, ResumeCase
from holdfast.core.end_reason import end_reason_text
from holdfast.core.state import CheckpointReached, Issue, RunState
from holdfast.core.task_state import TaskStatus

_MAX_ITEMS = 20
_CHOSEN_TEXT = 'Continuing the choice made before the interruption: "{}"'


def format_report(analysis: Analysis) -> str:
    return "\n".join((*_heading(analysis), *_BODY_BY_CASE[analysis.decision.case](analysis), *_log_notes(analysis)))


def instruction_context(state: RunState) -> Iterator[str]:
    """Yield what a person needs to write instructions: tasks, errors and branches."""
    yield paint("Task state:", "bold")
    for name, task in list(state.tasks.items())[:_MAX_ITEMS]:
        at = f", at {task.stage}" if task.status is TaskStatus.IN_PROGRESS else ""
        summary = f" — {printable(task.summary)}" if task.summary else ""
        yield f"  - Task #{printable(name)}: {paint_status(task.status)}{at}{summary}"
    yield from _more_line(len(state.tasks))
    yield paint("Errors:", "bold")
    for issue in state.issues[-_MAX_ITEMS:]:
        yield f"  - [{issue.type}] {printable(_issue(issue))}"
    yield paint("Branch state:", "bold")
    for name, branch in list(state.branches.items())[:_MAX_ITEMS]:
        base = f", from {branch.base[:10]}" if branch.base else ""
        task_text = f" (Task #{printable(branch.task)})" if branch.task else ""
        yield f"  - {printable(name)}: {branch.status}{base}{task_text}"
    yield from _more_line(len(state.branches))


def _heading(analysis: Analysis) -> Iterator[str]:
    title = f'Resume Analysis for feature "{printable(analysis.feature or "?")}":'
    yield paint(title, "bold")
    yield "=" * max(45, len(title))
    yield ""
    if analysis.sid is None:
        return
    state = "INTERRUPTED" if analysis.interrupted else "ended"
    yield (
        f"Session {printable(analysis.sid)}: {state}, {pluralize(analysis.events, 'event')}, "
        f"seq {analysis.first_seq}-{analysis.last_seq}, {_gaps(analysis)}"
    )
    others = [sid for sid in analysis.interrupted_sessions if sid != analysis.sid]
    if others:
        yield f"Interrupted before it and not resumed: {printable(', '.join(others))}"
    yield ""


def _auto(analysis: Analysis) -> Iterator[str]:
    checkpoint = analysis.checkpoint
    if checkpoint is not None:
        yield from _last_checkpoint(checkpoint)
    yield from _tasks(analysis)
    yield from _agents(analysis)
    yield paint("Auto-Resume:", "green")
    yield (
        f'  1. Checkpoint "{printable(checkpoint.label)}" found'
        if checkpoint is not None
        else "  1. No checkpoint found"
    )
    chosen = analysis.decision.chosen
    yield (
        "  2. "
        f"{_CHOSEN_TEXT.format(chosen) if chosen else 'No unresolved errors, blockers, or failures after checkpoint'}"
    )
    yield f"  3. Next step: {_next_step(analysis)}"
    yield "  4. It can continue without a decision"


def _waiting(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is not None:
        yield from _last_checkpoint(analysis.checkpoint)
    yield from _tasks(analysis)
    yield paint("Waiting for your approval:", "yellow")
    yield f"  Next step: {printable(analysis.decision.next_step or '')}"
    yield "  Answer with holdfast approve or holdfast deny --changes TEXT, then holdfast resume"


def _next_step(analysis: Analysis) -> str:
    step = analysis.decision.next_step
    return f"{step} (all tasks are done)" if step == NOTHING_LEFT else printable(step or "as planned")


def _issues(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is not None:
        yield from _last_checkpoint(analysis.checkpoint)
        yield paint("Issues found after checkpoint:", "red")
    else:
        yield "No checkpoint found."
        yield ""
        yield paint("Issues found:", "red")
    for number, issue in enumerate(analysis.issues[:_MAX_ITEMS], start=1):
        yield f"  {number}. [{issue.type}] {printable(_issue(issue))}"
    yield from _more_line(len(analysis.issues))
    yield ""
    yield from _agents(analysis)
    yield from _options(analysis)


def _no_checkpoint(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is None:
        yield "No checkpoint found — session interrupted during early execution."
    else:
        yield from _last_checkpoint(analysis.checkpoint)
        yield "It is not marked as a point to resume from."
    yield ""
    started = [name for name, task in analysis.tasks.items() if task.status is TaskStatus.IN_PROGRESS]
    completed = sum(task.status is TaskStatus.COMPLETE for task in analysis.tasks.values())
    yield "Session state:"
    yield f"  - Plan created: {'yes' if analysis.planned else 'no'}"
    listed = ", ".join(f"Task #{printable(name)} — IN_PROGRESS" for name in started[:_MAX_ITEMS])
    yield f"  - Tasks started: {len(analysis.tasks)}" + (f" ({listed})" if listed else "")
    yield f"  - Tasks completed: {completed}"
    yield ""
    yield from _agents(analysis)
    yield "Recommendation: Restart feature implementation from the beginning."
    if analysis.planned:
        yield "The plan from the interrupted session is available for reference."
    yield ""
    yield from _options(analysis)


def _complete(analysis: Analysis) -> Iterator[str]:
    if analysis.sid is None:
        yield "No session found; nothing to resume."
    else:
        yield from _tasks(analysis)
        yield paint("The session ended normally; nothing to resume.", "green")


_BODY_BY_CASE = {
    ResumeCase.AUTO: _auto,
    ResumeCase.WAITING: _waiting,
    ResumeCase.ISSUES: _issues,
    ResumeCase.NO_CHECKPOINT: _no_checkpoint,
    ResumeCase.COMPLETE: _complete,
}


def _tasks(analysis: Analysis) -> Iterator[str]:
    if not analysis.tasks:
        return
    yield "Task state:"
    for name, task in list(analysis.tasks.items())[:_MAX_ITEMS]:
        summary = f" — {printable(task.summary)}" if task.summary else ""
        interrupted = " (interrupted)" if task.status is TaskStatus.IN_PROGRESS and analysis.interrupted else ""
        yield f"  - Task #{printable(name)}: {paint_status(task.status)}{interrupted}{summary}"
    yield from _more_line(len(analysis.tasks))
    yield ""


def _agents(analysis: Analysis) -> Iterator[str]:
    if not analysis.active_agents:
        return
    yield "Active agents at interruption:"
    for agent in analysis.active_agents[:_MAX_ITEMS]:
        about = [f"Task #{agent.task}" if agent.task else None, f"branch: {agent.branch}" if agent.branch else None]
        known = ", ".join(part for part in about if part)
        yield f"  - {printable(agent.name)}" + (f" ({printable(known)})" if known else "")
    yield ""


def _options(analysis: Analysis) -> Iterator[str]:
    yield "Options:"
    for option in analysis.decision.options:
        yield f"  {option.key}. {printable(option.label)}"
        if option.warning:
            yield paint(f"     warning: {printable(option.warning)}", "yellow")


def _log_notes(analysis: Analysis) -> Iterator[str]:
    """Yield what is wrong with the log itself."""
    notes = [
        *(f"line {line}: {reason}" for line, reason in sorted(_line_notes(analysis))),
        *(f"seq {_missing(gap)} missing" for gap in analysis.gaps),
        *(f"warning (seq {warning.seq}): {_issue(warning)}" for warning in analysis.warnings),
    ]
    if analysis.first_seq:
        notes.append(f"the session starts at seq {analysis.first_seq}: its first events are missing")
    if notes:
        yield ""
        yield "Notes on the log:"
        yield from (f"  - {printable(note)}" for note in notes[:_MAX_ITEMS])
        yield from _more_line(len(notes))


def _line_notes(analysis: Analysis) -> Iterator[tuple[int, str]]:
    for note in (*analysis.malformed, *analysis.duplicates):
        yield note.line, note.reason


def _gaps(analysis: Analysis) -> str:
    missing = sum(gap.missing_count for gap in analysis.gaps)
    return f"{missing} missing in {pluralize(len(analysis.gaps), 'gap')}" if analysis.gaps else "no gaps"


def _missing(gap: SeqGap) -> str:
    first, last = gap.expected_seq, gap.actual_seq - 1
    return f"{first}" if first == last else f"{first}-{last}"


def _last_checkpoint(checkpoint: CheckpointReached) -> Iterator[str]:
    when = f", {format_time(checkpoint.ts)}" if checkpoint.ts else ""
    yield f'Last checkpoint: "{printable(checkpoint.label)}" (seq {checkpoint.seq}){when}'
    yield ""


def _issue(issue: Issue) -> str:
    detail = issue.detail
    if issue.type == "task.failed":
        attempts = f" (attempts: {detail['attempts']})" if detail.get("attempts") is not None else ""
        return f"Task #{issue.task} — {end_reason_text(detail.get('error') or 'failed')}{attempts}"
    if issue.type == "error.encountered":
        place = ":".join(str(part) for part in (detail.get("file"), detail.get("line")) if part is not None)
        return f"{place + ' — ' if place else ''}{detail.get('error') or 'error'} (resolved: false)"
    return _message(issue)


def _message(issue: Issue) -> str:
    """Return the text of a blocker or a warning; other tools use different field names."""
    texts = [issue.detail.get(key) for key in ("message", "description", "blocker", "reason", "warning", "text")]
    return next((str(text) for text in texts if text), str(issue.detail))


def _more_line(count: int) -> Iterator[str]:
    if count > _MAX_ITEMS:
        yield f"  … and {count - _MAX_ITEMS} more (--json has them all)"
