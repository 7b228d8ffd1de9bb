"""The upper part of the page: what the run is, how it stands, its tasks and how they were judged."""

from collections.abc import Iterator

from holdfast.app.html.escape import folded, words
from holdfast.app.text.digest import wanting
from holdfast.app.text.screen import counted, moment
from holdfast.app.text.task_tree import facts_of
from holdfast.core.state import RunState, Task, TaskStatus
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.spending import cost_of
from holdfast.engine.queries.logs import RunView


def summary(view: RunView, digest: Digest) -> Iterator[str]:
    state = view.state
    goal = state.run.goal if state.run is not None else ""
    yield f'<header><h1>{words(view.run_id)} <span class="badge {words(view.status)}">{words(view.status)}</span></h1>'
    yield f"{folded(goal, 'goal')}<dl>"
    for name, value in _facts(state):
        yield f"<div><dt>{words(name)}</dt><dd>{words(value)}</dd></div>"
    yield "</dl></header>"
    needs = wanting(digest.needs, view.run_id)
    if needs:
        yield "<section id=needs><h2>Needs you</h2><ul>"
        yield from (f"<li>{words(line)}</li>" for line in needs)
        yield "</ul></section>"
    yield from _tasks(state)
    yield from _sittings(state)


def _facts(state: RunState) -> Iterator[tuple[str, str]]:
    done = sum(task.status is TaskStatus.COMPLETE for task in state.tasks.values())
    spent = state.budget
    if state.run is not None:
        yield "workflow", state.run.workflow
        yield "repository", state.run.repo or "–"
        yield "branch", state.run.branch or "–"
    yield "tasks done", f"{done} of {len(state.tasks)}"
    yield "tokens", f"{spent.input_tokens + spent.output_tokens:,}"
    yield "cost", cost_of(state)
    yield "log", f"{counted(state.events, 'event')}, {counted(len(state.sessions), 'session')}"


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
        yield "<h3>In no wave</h3>"
    yield from (_task(state, name, state.tasks[name]) for name in rest)
    yield "</section>"


def _task(state: RunState, name: str, task: Task) -> str:
    facts = "; ".join(facts_of(state, name, task))
    head = (
        f'<b>{words(name)}</b> <span class="badge {task.status}">{task.status.lower().replace("_", " ")}</span> '
        f"{words(task.summary or '')} <i>{words(facts)}</i>"
    )
    return f"<details class=task><summary>{head}</summary>{''.join(_about(state, name, task))}</details>"


def _about(state: RunState, name: str, task: Task) -> Iterator[str]:
    if task.description:
        yield folded(task.description)
    if task.acceptance_criteria:
        yield f"<ul>{''.join(f'<li>{words(one)}</li>' for one in task.acceptance_criteria)}</ul>"
    needed = state.plan.blocked_by.get(name, []) if state.plan is not None else []
    rows = {
        "after": ", ".join(needed),
        "commit": task.commit or "",
        "files": ", ".join(task.files_changed or []),
        "error": task.error or "",
        "reason": task.reason or "",
    }
    yield "".join(f"<p><b>{key}</b> {words(value)}</p>" for key, value in rows.items() if value)
    for check in task.checks:
        how = "completed" if check.passed else "failed"
        yield f'<div class="result {how}"><b>{words(check.name)}</b> {"passed" if check.passed else "failed"}'
        yield f"{folded(check.output or check.problem or '', 'text')}</div>"
    for verdict in task.verdicts:
        how = "accepted" if verdict.accept else "rejected"
        yield f'<div class="verdict {how}"><b>iteration {verdict.iteration}: {how}</b> {words(verdict.category or "")}'
        for part in (verdict.concern, verdict.evidence, verdict.next_step):
            yield folded(part) if part else ""
        yield "</div>"


def _sittings(state: RunState) -> Iterator[str]:
    yield "<section id=sittings><h2>Sittings and checkpoints</h2><table>"
    for session in state.sessions.values():
        ended = f"ended: {session.end_reason or 'normally'}" if session.ended else "no end"
        cells = (session.command or "?", moment(session.started), moment(session.last), ended)
        yield f"<tr>{''.join(f'<td>{words(cell)}</td>' for cell in cells)}</tr>"
        for point in state.checkpoints:
            if point.sid == session.sid:
                yield (
                    f"<tr class=point><td>◆ checkpoint</td><td>{words(moment(point.ts))}</td>"
                    f"<td>{words(point.label)}</td><td>{words((point.commit or '')[:10])}</td></tr>"
                )
    yield "</table></section>"
