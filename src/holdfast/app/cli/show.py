"""`holdfast show`: one run as it stands."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.app.cli.analyze import as_json
from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.screen import counted, moment, paint, paint_status, plain
from holdfast.core.decision import Case
from holdfast.core.state import RunState, Session
from holdfast.engine.naming import find_run
from holdfast.engine.places import default_home
from holdfast.engine.service import RunView, view_run
from holdfast.leaf.errors import OK

_EXAMPLES = """\
  holdfast show auth-system
  holdfast show auth-system --json | jq .analysis.decision"""

_MOST = 30


def run(arguments: list[str]) -> int:
    parser = Parser("show", "One run: what it is, how it stands, and how it would go on.", _EXAMPLES)
    parser.add_argument("run", metavar="RUN", help="id, beginning of an id, or slug")
    options = parser.parse_args(arguments)
    home = default_home()
    view = asyncio.run(view_run(home, find_run(home, options.run)))
    if options.json:
        print(json.dumps(_as_json(view), ensure_ascii=False))
    else:
        print("\n".join(_told(view)))
    return OK


def _as_json(view: RunView) -> dict[str, Any]:
    return {
        "id": view.run_id,
        "folder": view.folder,
        "status": view.status,
        "owner": msgspec.to_builtins(view.holder),
        "analysis": as_json(view.analysis),
        "state": msgspec.to_builtins(view.state),
    }


def _told(view: RunView) -> Iterator[str]:
    state = view.state
    yield f"{paint(plain(view.run_id), 'bold')}  {paint_status(plain(view.status))}"
    for name, value in _facts(view):
        yield f"  {name:10}  {plain(value)}"
    yield from _tasks(state)
    yield from _sessions(state)
    yield from _open_ends(state)
    yield ""
    yield from _how_to_go_on(view)


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
    if spent.input_tokens or spent.output_tokens:
        yield "spent", f"{spent.input_tokens + spent.output_tokens:,} tokens, ${spent.dollars:.2f}"


def _oddities(state: RunState) -> str:
    found = [
        (len(state.repairs), "repaired torn tail"),
        (len(state.malformed) + state.notes_dropped, "unreadable line"),
        (len(state.duplicates), "doubled line"),
        (sum(state.unknown_types.values()), "unknown event"),
    ]
    told = ", ".join(counted(count, what) for count, what in found if count)
    return f" ({told})" if told else ""


def _tasks(state: RunState) -> Iterator[str]:
    if not state.tasks:
        return
    yield ""
    yield "tasks"
    for name, task in list(state.tasks.items())[:_MOST]:
        about = task.error or task.reason or task.summary or ""
        yield f"  {plain(name):8}  {paint_status(task.status, 11)}  {plain(about)}"
    if len(state.tasks) > _MOST:
        yield f"  … and {len(state.tasks) - _MOST} more (--json has them all)"


def _sessions(state: RunState) -> Iterator[str]:
    yield ""
    yield "sessions"
    for session in list(state.sessions.values())[-_MOST:]:
        command = plain(session.command or "?")
        yield f"  {plain(session.sid):12}  {command:8}  {moment(session.started)}  {_end(session)}"


def _end(session: Session) -> str:
    ended = f"ended: {session.end_reason or 'normally'}" if session.ended else "no end"
    return f"{counted(session.events, 'event')}, {plain(ended)}"


def _open_ends(state: RunState) -> Iterator[str]:
    """What was begun and has no outcome yet."""
    ends = [
        *(f"effect {key}: {effect.kind} ({effect.status})" for key, effect in state.effects.items()),
        *(f"turn {c.turn.turn} of {key}" for key, c in state.conversations.items() if c.turn is not None),
    ]
    if ends:
        yield ""
        yield "open"
        yield from (f"  {plain(end)}" for end in ends[:_MOST])


def _how_to_go_on(view: RunView) -> Iterator[str]:
    decision = view.analysis.decision
    if view.status == "running":
        yield f"It is at work: holdfast logs -f {view.run_id}"
    elif decision.case is Case.COMPLETE:
        yield "There is nothing to resume."
    elif decision.case is Case.AUTO:
        yield f"It can go on by itself, at {plain(decision.next_step or 'the next step')}."
    else:
        yield f"It needs a decision (holdfast analyze {view.run_id} tells why):"
        yield from (f"  {option.key}. {plain(option.label)}" for option in decision.options)
