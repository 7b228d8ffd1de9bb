"""`holdfast show`: one run as it stands."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.inspect.analyze import as_json
from holdfast.app.text.digest import told_digest, wanting
from holdfast.app.text.screen import counted, moment, paint, paint_status, plain
from holdfast.app.text.spans import painted
from holdfast.app.text.task_tree import MOST, phase_rows, task_tree
from holdfast.core.conversation.call_text import input_of
from holdfast.core.decide.resume import Case
from holdfast.core.state import RunState, Session
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.gates import gate_of
from holdfast.core.summary.needs import Need, Want
from holdfast.core.summary.spending import has_spent, spent_text, unpriced_in
from holdfast.engine.containers import Orphan, running_containers
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast show auth-system
  holdfast show auth-system --json | jq .analysis.decision"""

_DETAIL_LINES = 60  # of one request
_ASKED = (Want.PERMISSION, Want.APPROVAL)
_POINTS = 5  # checkpoints of one session that are shown


def run(arguments: list[str]) -> int:
    parser = Parser("show", "One run: what it is, how it stands, what it needs, and how it would go on.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    options = parser.parse_args(arguments)
    home = default_home()
    view, digest = asyncio.run(_seen(home, find_run(home, options.run)))
    if options.json:
        print(json.dumps(_as_json(view, digest), ensure_ascii=False))
    else:
        print("\n".join(_told(view, digest)))
    return OK


async def _seen(home: str, run_id: str) -> tuple[RunView, Digest]:
    view = await view_run(home, run_id)
    return view, await digest_of(home, run_id, view=view)


def _as_json(view: RunView, digest: Digest) -> dict[str, Any]:
    return {
        "id": view.run_id,
        "folder": view.folder,
        "status": view.status,
        "owner": msgspec.to_builtins(view.holder),
        "orphaned_containers": [one._asdict() for one in _orphans(view)],
        "analysis": as_json(view.analysis),
        "state": msgspec.to_builtins(view.state),
        "needs": [_need_as_json(need, view.state) for need in digest.needs],
        "digest": {name: value for name, value in msgspec.to_builtins(digest).items() if name != "needs"},
    }


def _need_as_json(need: Need, state: RunState) -> dict[str, Any]:
    asked = state.permissions.get(need.key or "") if need.want is Want.PERMISSION else None
    gate = gate_of(state, state.phase or "") if need.want is Want.APPROVAL else None
    told = need._asdict() | {"answer": {**msgspec.to_builtins(need.answer), "applied": False} if need.answer else None}
    if gate is not None:
        return {**told, "gate": msgspec.to_builtins(gate)}
    if asked is None:
        return told
    request = {
        "title": asked.title,
        "kind": asked.kind,
        "command": asked.command,
        "paths": asked.paths,
        "diffs": msgspec.to_builtins(asked.diffs),
        "input": input_of(asked),
        "note": asked.note,
    }
    return {**told, "request": request}


def _told(view: RunView, digest: Digest) -> Iterator[str]:
    state = view.state
    yield f"{paint(plain(view.run_id), 'bold')}  {paint_status(plain(view.status))}"
    for name, value in _facts(view):
        yield f"  {name:10}  {plain(value)}"
    yield from _section("phases", painted(phase_rows(state)))
    yield from _section("tasks", painted(task_tree(state)))
    yield from _section(
        "needs you", (f"  {line}" for line in wanting(digest.needs, view.run_id, _DETAIL_LINES)), "yellow"
    )
    yield from _section("the last sitting", (f"  {line}" for line in _last_sitting(digest, view.run_id)))
    yield from _section("sessions and checkpoints", _timeline(state))
    yield from _section("open", _open_ends(state))
    yield from _section("orphaned containers", _told_orphans(view), "yellow")
    yield ""
    yield from _how_to_go_on(view, digest)


def _section(title: str, lines: Iterator[str], colour: str | None = None) -> Iterator[str]:
    first = next(lines, None)
    if first is not None:
        yield from ("", paint(title, colour or "bold"), first, *lines)


def _last_sitting(digest: Digest, run_id: str) -> list[str]:
    """What it did; what the whole run needs is told before."""
    return [line.removeprefix("  ") for line in told_digest(msgspec.structs.replace(digest, needs=[]), run_id)[1:]]


def _facts(view: RunView) -> Iterator[tuple[str, str]]:
    state = view.state
    if state.run is not None:
        yield "goal", state.run.goal
        yield "workflow", state.run.workflow
        if state.run.repo:
            yield "repo", state.run.repo
    yield "folder", view.folder
    if view.holder is not None:
        yield "owner", f"pid {view.holder.pid} on {view.holder.host} since {moment(view.holder.since)}"
    yield "log", f"{counted(state.events, 'event')} in {counted(len(state.sessions), 'session')}{_oddities(state)}"
    if state.checkpoints:
        last = state.checkpoints[-1]
        yield "checkpoint", f'"{last.label}" (seq {last.seq}), {moment(last.ts)}'
    spent = state.budget
    if has_spent(state):
        yield "spent", spent_text(spent.input_tokens + spent.output_tokens, spent.dollars, unpriced_in(state))


def _oddities(state: RunState) -> str:
    found = [
        (len(state.repairs), "repaired torn tail"),
        (len(state.malformed) + state.notes_dropped, "unreadable line"),
        (len(state.duplicates), "doubled line"),
        (sum(state.unknown_types.values()), "unknown event"),
    ]
    told = ", ".join(counted(count, what) for count, what in found if count)
    return f" ({told})" if told else ""


def _timeline(state: RunState) -> Iterator[str]:
    """Each session, and under it the points that it reached."""
    for session in list(state.sessions.values())[-MOST:]:
        command = plain(session.command or "?")
        yield f"  {plain(session.sid):12}  {command:8}  {moment(session.started)}  {_end(session)}"
        reached = [point for point in state.checkpoints if point.sid == session.sid]
        if len(reached) > _POINTS:
            yield f"  {'':12}  … {counted(len(reached) - _POINTS, 'checkpoint')} before"
        for point in reached[-_POINTS:]:
            where = f" at {point.commit[:10]}" if point.commit else ""
            then = f", then {point.plan_step}" if point.plan_step else ""
            yield f"  {'':12}  {'reached':8}  {moment(point.ts)}  {plain(point.label + where + then)}"


def _end(session: Session) -> str:
    ended = f"ended: {session.end_reason or 'normally'}" if session.ended else "no end"
    return f"{counted(session.events, 'event')}, {plain(ended)}"


def _open_ends(state: RunState) -> Iterator[str]:
    """What was begun and has no outcome yet."""
    ends = [
        *(f"effect {key}: {effect.kind} ({effect.status})" for key, effect in state.effects.items()),
        *(f"turn {c.turn.turn} of {key}" for key, c in state.conversations.items() if c.turn is not None),
    ]
    yield from (f"  {plain(end)}" for end in ends[:MOST])


def _orphans(view: RunView) -> list[Orphan]:
    """Those at work for a run that nobody owns."""
    return running_containers(view.folder, view.run_id) if view.holder is None else []


def _told_orphans(view: RunView) -> Iterator[str]:
    for one in _orphans(view):
        if one.container is not None:
            yield f"  {one.container[:12]} at {plain(one.address)}; end it: holdfast doctor --fix"
        else:
            yield f"  not known: {plain(one.problem or '')}"


def _how_to_answer(run_id: str, asked: Sequence[Need]) -> Iterator[str]:
    if all(need.answer is not None for need in asked):
        yield f"It goes on with your answer: holdfast resume {run_id}"
    else:
        yield f"It waits for your answer: holdfast approve {run_id}, or deny; then holdfast resume {run_id}"


def _how_to_go_on(view: RunView, digest: Digest) -> Iterator[str]:
    decision = view.analysis.decision
    if view.status == "running":
        yield f"It is at work: holdfast attach {view.run_id}"
    elif view.state.is_unmade:
        yield f"Killed before its plan was recorded: it cannot continue. Delete it with: holdfast reset {view.run_id}"
    elif decision.case is Case.COMPLETE and any(need.want is Want.MESSAGE for need in digest.needs):
        yield f"It is done, but for what it was sent since: holdfast resume {view.run_id}"
    elif decision.case is Case.COMPLETE:
        yield "There is nothing to resume."
    elif decision.case in (Case.WAITING, Case.AUTO) and (asked := [n for n in digest.needs if n.want in _ASKED]):
        yield from _how_to_answer(view.run_id, asked)
    elif decision.case is Case.AUTO:
        yield f"It can go on by itself, at {plain(decision.next_step or 'the next step')}."
    else:
        yield f"It needs a decision (holdfast analyze {view.run_id} tells why):"
        yield from (f"  {option.key}. {plain(option.label)}" for option in decision.options)
