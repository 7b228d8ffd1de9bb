"""The upper part of the page: the run, its status, tasks, verdicts and sessions."""

from collections.abc import Iterator

from holdfast.app.html.escape import escape_text, fold_text
from holdfast.app.text.digest import format_needs
from holdfast.app.text.screen import format_time, pluralize, status_text
from holdfast.app.text.task_tree import task_facts
from holdfast.core.end_reason import end_reason_text
from holdfast.core.state import RunState
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.spending import run_cost_text
from holdfast.core.task_state import Check, Task, TaskStatus
from holdfast.engine.queries.logs import RunView


def summary(view: RunView, digest: Digest, picture: Iterator[str]) -> Iterator[str]:
    state = view.state
    goal = state.run.goal if state.run is not None else ""
    yield (
        f'<header><h1>{escape_text(view.run_id)} <span class="badge '
        f'{escape_text(view.status)}">{escape_text(status_text(view.status))}</span></h1>'
    )
    yield f"{fold_text(goal, 'goal')}<dl>"
    for name, value in _facts(state):
        yield f"<div><dt>{escape_text(name)}</dt><dd>{escape_text(value)}</dd></div>"
    yield "</dl></header>"
    needs = format_needs(digest.needs, view.run_id)
    if needs:
        yield "<section id=needs><h2>Needs you</h2><ul>"
        yield from (f"<li>{escape_text(line)}</li>" for line in needs)
        yield "</ul></section>"
    yield from picture
    yield from _tasks(state)
    yield from _sessions(state)


def _facts(state: RunState) -> Iterator[tuple[str, str]]:
    done = sum(task.status is TaskStatus.COMPLETE for task in state.tasks.values())
    spent = state.budget
    if state.run is not None:
        yield "workflow", state.run.workflow
        yield "repository", state.run.repo or "–"
        yield "branch", state.run.branch or "–"
    yield "tasks done", f"{done} of {len(state.tasks)}"
    yield "tokens", f"{spent.input_tokens + spent.output_tokens:,}"
    yield "cost", run_cost_text(state)
    yield "log", f"{pluralize(state.events, 'event')}, {pluralize(len(state.sessions), 'session')}"


def _tasks(state: RunState) -> Iterator[str]:
    if not state.tasks:
        return
    yield "<section id=tasks><h2>Tasks</h2>"
    waves = sorted(state.plan.waves.items()) if state.plan is not None else []
    seen: set[str] = set()
    for number, wave in waves:
        names = [name for name in wave.task_ids if name in state.tasks]
        seen.update(names)
        yield f"<h3>Wave {number}{' · done' if wave.completed else ''}</h3>"
        yield from (_task(state, name, state.tasks[name]) for name in names)
    rest = [name for name in state.tasks if name not in seen]
    if rest and waves:
        yield "<h3>Not in a wave</h3>"
    yield from (_task(state, name, state.tasks[name]) for name in rest)
    yield "</section>"


def _task(state: RunState, task_id: str, task: Task) -> str:
    facts = "; ".join(task_facts(state, task_id, task))
    head = (
        f'<b>{escape_text(task_id)}</b> <span class="badge '
        f'{task.status}">{task.status.lower().replace("_", " ")}</span> '
        f"{escape_text(task.summary or '')} <i>{escape_text(facts)}</i>"
    )
    return f"<details class=task><summary>{head}</summary>{''.join(_task_details(state, task_id, task))}</details>"


def _task_details(state: RunState, task_id: str, task: Task) -> Iterator[str]:
    if task.description:
        yield fold_text(task.description)
    if task.acceptance_criteria:
        yield f"<ul>{''.join(f'<li>{escape_text(criterion)}</li>' for criterion in task.acceptance_criteria)}</ul>"
    needed = state.plan.blocked_by.get(task_id, []) if state.plan is not None else []
    rows = {
        "after": ", ".join(needed),
        "commit": task.commit or "",
        "files": ", ".join(task.files_changed or []),
        "error": task.error or "",
        "reason": task.reason or "",
    }
    yield "".join(f"<p><b>{key}</b> {escape_text(value)}</p>" for key, value in rows.items() if value)
    for check in task.checks:
        result = "completed" if check.passed else "failed"
        yield f'<div class="result {result}"><b>{escape_text(check.name)}</b> {_check_result(check)}'
        yield f"{fold_text(check.output or check.problem or '', 'text')}</div>"
    for verdict in task.verdicts:
        result = "accepted" if verdict.accept else "rejected"
        yield (
            f'<div class="verdict {result}"><b>iteration {verdict.iteration}: {result}</b> '
            f"{escape_text(verdict.category or '')}"
        )
        for part in (verdict.concern, verdict.evidence, verdict.next_step):
            yield fold_text(part) if part else ""
        yield "</div>"


def _check_result(check: Check) -> str:
    excused = " (as on the untouched base)" if check.excused else ""
    return "passed" if check.passed else f"failed{excused}"


def _sessions(state: RunState) -> Iterator[str]:
    yield "<section id=sessions><h2>Sessions and checkpoints</h2><table>"
    for session in state.sessions.values():
        ended = f"ended: {end_reason_text(session.end_reason)}" if session.ended else "interrupted"
        ended += ", taken back" if session.abandoned else ""
        cells = (session.command or "?", format_time(session.started), format_time(session.last), ended)
        yield f"<tr>{''.join(f'<td>{escape_text(cell)}</td>' for cell in cells)}</tr>"
        for point in state.checkpoints:
            if point.sid == session.sid:
                yield (
                    f"<tr class=point><td>◆ checkpoint</td><td>{escape_text(format_time(point.ts))}</td>"
                    f"<td>{escape_text(point.label)}</td><td>{escape_text((point.commit or '')[:10])}</td></tr>"
                )
    yield "</table></section>"
