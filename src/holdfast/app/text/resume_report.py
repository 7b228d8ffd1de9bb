"""The Resume Protocol's reports, as a person reads them on a terminal."""

from collections.abc import Iterator

from holdfast.app.text.screen import counted, moment, paint, paint_status, plain
from holdfast.core.decide.analysis import Analysis, SeqGap
from holdfast.core.decide.resume import NOTHING_LEFT, Case
from holdfast.core.state import CheckpointReached, Issue, RunState, TaskStatus

_MOST = 20
_CHOSEN = 'Chosen before the interruption, and not finished: "{}"'


def report(analysis: Analysis) -> str:
    return "\n".join((*_heading(analysis), *_BODIES[analysis.decision.case](analysis), *_log_notes(analysis)))


def context(state: RunState) -> Iterator[str]:
    """What a person should see before they write instructions: the tasks, what went wrong, and the branches."""
    yield paint("Task state:", "bold")
    for name, task in list(state.tasks.items())[:_MOST]:
        at = f", at {task.stage}" if task.status is TaskStatus.IN_PROGRESS else ""
        summary = f" — {plain(task.summary)}" if task.summary else ""
        yield f"  - Task #{plain(name)}: {paint_status(task.status)}{at}{summary}"
    yield from _more(len(state.tasks))
    yield paint("Errors:", "bold")
    for issue in state.issues[-_MOST:]:
        yield f"  - [{issue.type}] {plain(_issue(issue))}"
    yield paint("Branch state:", "bold")
    for name, branch in list(state.branches.items())[:_MOST]:
        where = f", from {branch.base[:10]}" if branch.base else ""
        whose = f" (Task #{plain(branch.task)})" if branch.task else ""
        yield f"  - {plain(name)}: {branch.status}{where}{whose}"
    yield from _more(len(state.branches))


def _heading(analysis: Analysis) -> Iterator[str]:
    title = f'Resume Analysis for feature "{plain(analysis.feature or "?")}":'
    yield paint(title, "bold")
    yield "=" * max(45, len(title))
    yield ""
    if analysis.sid is None:
        return
    state = "INTERRUPTED" if analysis.interrupted else "ended"
    yield (
        f"Session {plain(analysis.sid)}: {state}, {counted(analysis.events, 'event')}, "
        f"seq {analysis.first_seq}-{analysis.last_seq}, {_gaps(analysis)}"
    )
    others = [sid for sid in analysis.interrupted_sessions if sid != analysis.sid]
    if others:
        yield f"Interrupted before it and not resumed: {plain(', '.join(others))}"
    yield ""


def _auto(analysis: Analysis) -> Iterator[str]:
    checkpoint = analysis.checkpoint
    if checkpoint is not None:
        yield from _last_checkpoint(checkpoint)
    yield from _tasks(analysis)
    yield from _agents(analysis)
    yield paint("Auto-Resume:", "green")
    yield f'  1. Checkpoint "{plain(checkpoint.label)}" found' if checkpoint is not None else "  1. No checkpoint found"
    chosen = analysis.decision.chosen
    yield f"  2. {_CHOSEN.format(chosen) if chosen else 'No unresolved errors, blockers, or failures after checkpoint'}"
    yield f"  3. Next step: {_next_step(analysis)}"
    yield "  4. It can go on by itself"


def _waiting(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is not None:
        yield from _last_checkpoint(analysis.checkpoint)
    yield from _tasks(analysis)
    yield paint("It waits for your approval:", "yellow")
    yield f"  Next step: {plain(analysis.decision.next_step or '')}"
    yield "  Answer with holdfast approve or holdfast deny --changes WORDS, then holdfast resume"


def _next_step(analysis: Analysis) -> str:
    step = analysis.decision.next_step
    return f"{step} (every task is done)" if step == NOTHING_LEFT else plain(step or "as planned")


def _issues(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is not None:
        yield from _last_checkpoint(analysis.checkpoint)
        yield paint("Issues found after checkpoint:", "red")
    else:
        yield "No checkpoint found."
        yield ""
        yield paint("Issues found:", "red")
    for number, issue in enumerate(analysis.issues[:_MOST], start=1):
        yield f"  {number}. [{issue.type}] {plain(_issue(issue))}"
    yield from _more(len(analysis.issues))
    yield ""
    yield from _agents(analysis)
    yield from _options(analysis)


def _no_checkpoint(analysis: Analysis) -> Iterator[str]:
    if analysis.checkpoint is None:
        yield "No checkpoint found — session interrupted during early execution."
    else:
        yield from _last_checkpoint(analysis.checkpoint)
        yield "It is marked as no place to resume from."
    yield ""
    started = [name for name, task in analysis.tasks.items() if task.status is TaskStatus.IN_PROGRESS]
    completed = sum(task.status is TaskStatus.COMPLETE for task in analysis.tasks.values())
    yield "Session state:"
    yield f"  - Plan created: {'yes' if analysis.planned else 'no'}"
    listed = ", ".join(f"Task #{plain(name)} — IN_PROGRESS" for name in started[:_MOST])
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
        yield "No session found: there is nothing to resume."
    else:
        yield from _tasks(analysis)
        yield paint("The session ended normally: there is nothing to resume.", "green")


_BODIES = {
    Case.AUTO: _auto,
    Case.WAITING: _waiting,
    Case.ISSUES: _issues,
    Case.NO_CHECKPOINT: _no_checkpoint,
    Case.COMPLETE: _complete,
}


def _tasks(analysis: Analysis) -> Iterator[str]:
    if not analysis.tasks:
        return
    yield "Task state:"
    for name, task in list(analysis.tasks.items())[:_MOST]:
        summary = f" — {plain(task.summary)}" if task.summary else ""
        cut_off = " (interrupted)" if task.status is TaskStatus.IN_PROGRESS and analysis.interrupted else ""
        yield f"  - Task #{plain(name)}: {paint_status(task.status)}{cut_off}{summary}"
    yield from _more(len(analysis.tasks))
    yield ""


def _agents(analysis: Analysis) -> Iterator[str]:
    if not analysis.active_agents:
        return
    yield "Active agents at interruption:"
    for agent in analysis.active_agents[:_MOST]:
        about = [f"Task #{agent.task}" if agent.task else None, f"branch: {agent.branch}" if agent.branch else None]
        known = ", ".join(part for part in about if part)
        yield f"  - {plain(agent.name)}" + (f" ({plain(known)})" if known else "")
    yield ""


def _options(analysis: Analysis) -> Iterator[str]:
    yield "Options:"
    for option in analysis.decision.options:
        yield f"  {option.key}. {plain(option.label)}"
        if option.warning:
            yield paint(f"     warning: {plain(option.warning)}", "yellow")


def _log_notes(analysis: Analysis) -> Iterator[str]:
    """What is the matter with the log itself: never silent."""
    notes = [
        *(f"line {line}: {reason}" for line, reason in sorted(_line_notes(analysis))),
        *(f"seq {_missing(gap)} missing" for gap in analysis.gaps),
        *(f"warning (seq {warning.seq}): {_issue(warning)}" for warning in analysis.warnings),
    ]
    if analysis.first_seq:
        notes.append(f"the session begins at seq {analysis.first_seq}: its first events are missing")
    if notes:
        yield ""
        yield "Notes on the log:"
        yield from (f"  - {plain(note)}" for note in notes[:_MOST])
        yield from _more(len(notes))


def _line_notes(analysis: Analysis) -> Iterator[tuple[int, str]]:
    for note in (*analysis.malformed, *analysis.duplicates):
        yield note.line, note.reason


def _gaps(analysis: Analysis) -> str:
    missing = sum(gap.missing_count for gap in analysis.gaps)
    return f"{missing} missing in {counted(len(analysis.gaps), 'gap')}" if analysis.gaps else "no gaps"


def _missing(gap: SeqGap) -> str:
    first, last = gap.expected_seq, gap.actual_seq - 1
    return f"{first}" if first == last else f"{first}-{last}"


def _last_checkpoint(checkpoint: CheckpointReached) -> Iterator[str]:
    when = f", {moment(checkpoint.ts)}" if checkpoint.ts else ""
    yield f'Last checkpoint: "{plain(checkpoint.label)}" (seq {checkpoint.seq}){when}'
    yield ""


def _issue(issue: Issue) -> str:
    detail = issue.detail
    if issue.type == "task.failed":
        attempts = f" (attempts: {detail['attempts']})" if detail.get("attempts") is not None else ""
        return f"Task #{issue.task} — {detail.get('error') or 'failed'}{attempts}"
    if issue.type == "error.encountered":
        place = ":".join(str(part) for part in (detail.get("file"), detail.get("line")) if part is not None)
        return f"{place + ' — ' if place else ''}{detail.get('error') or 'error'} (resolved: false)"
    return _message(issue)


def _message(issue: Issue) -> str:
    """The text of a blocker or a warning, whatever its writer called the field."""
    texts = [issue.detail.get(key) for key in ("message", "description", "blocker", "reason", "warning", "text")]
    return next((str(text) for text in texts if text), str(issue.detail))


def _more(count: int) -> Iterator[str]:
    if count > _MOST:
        yield f"  … and {count - _MOST} more (--json has them all)"
