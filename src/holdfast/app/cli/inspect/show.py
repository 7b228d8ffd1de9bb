"""`holdfast show`: the current state of one run."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.inspect.analyze import as_json
from holdfast.app.cli.inspect.show_cluster import cluster_facts, cluster_next_step, load_workers
from holdfast.app.cli.named_run import add_run, find_run
from holdfast.app.text.digest import format_digest, format_needs
from holdfast.app.text.rules import rule_lines
from holdfast.app.text.screen import (
    WAITING_FOR_TIME,
    format_bytes,
    format_time,
    paint,
    paint_status,
    pluralize,
    printable,
    status_text,
    terminal_width,
)
from holdfast.app.text.spans import paint_rows
from holdfast.app.text.task_tree import MAX_ROWS, phase_rows, task_rows
from holdfast.core.conversation.call_text import decode_input, shorten
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.end_reason import EndReason, end_reason_text
from holdfast.core.run_status import RunStatus
from holdfast.core.state import AdoptedFrom, RunState, Session
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.gates import gate_of
from holdfast.core.summary.limits import limit_lines, resumes_at
from holdfast.core.summary.needs import Need, NeedKind
from holdfast.core.summary.spending import has_spent, spent_text, unpriced_count
from holdfast.core.work.foreign_tools import tool_name
from holdfast.engine.home import Home
from holdfast.engine.queries.conversations import conversations_of
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.live.containers import OrphanContainer, running_containers
from holdfast.engine.queries.logs import RunView, parked_reason, view_run
from holdfast.engine.queries.placement import WorkerRow, is_cluster_run
from holdfast.engine.queries.queued import QueuedMessage, queued_beside
from holdfast.leaf.errors import EXIT_OK

if TYPE_CHECKING:
    from holdfast.engine.commands.retention.tombstone import Tombstone

_EXAMPLES = """\
  holdfast show auth-system
  holdfast show auth-system --json | jq .analysis.decision"""

_TEXT_CHARS = 200  # of a message
_DETAIL_LINES = 60  # of one request
_REQUEST_WANTS = (NeedKind.PERMISSION, NeedKind.APPROVAL)
_PIPE_WIDTH = 200
_MAX_CHECKPOINTS = 5  # shown per session
_WORKING_COMMANDS = ("run", "resume")  # the others, such as merge, do not know whether all tasks are done


def run(arguments: list[str]) -> int:
    parser = Parser(
        "show", "Show one run: its tasks, what it needs from you, its sessions, and the next step.", _EXAMPLES
    )
    add_run(parser)
    parser.add_argument("--points", action="store_true", help="list the points that `holdfast rewind` can go back to")
    options = parser.parse_args(arguments)
    home = Home()
    if options.run is not None and not options.points and home.has_tombstone(options.run):
        return _show_deleted(home, options.run, as_json_=options.json)
    if options.points:
        _print_points(home, find_run(home, options.run), as_json_=options.json)
        return EXIT_OK
    view, digest, queued, place = asyncio.run(_load(home, find_run(home, options.run)))
    if options.json:
        undelivered = [message._asdict() for message in queued]
        print(json.dumps({**_as_json(view, digest), "undelivered": undelivered}, ensure_ascii=False))
    else:
        print("\n".join(_report_lines(view, digest, queued, place)))
    return EXIT_OK


def _print_points(home: Home, run_id: str, *, as_json_: bool) -> None:
    from holdfast.app.text.rewind import point_lines  # loads git, which `show` does without
    from holdfast.engine.queries.points import list_points

    points = asyncio.run(list_points(home, run_id))
    width = terminal_width() if sys.stdout.isatty() else _PIPE_WIDTH
    lines = (_to_json(point) for point in points) if as_json_ else point_lines(points, width)
    for line in lines:
        print(line)


def _to_json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


class _Place(NamedTuple):
    """Which workers there are for a run that has one or waits for one, and why a parked run has none."""

    workers: Sequence[WorkerRow]
    parked: str | None


async def _load(home: Home, run_id: str) -> tuple[RunView, Digest, list[QueuedMessage], _Place]:
    view = await view_run(home, run_id)
    queued = await queued_beside(home, run_id, view.state)
    return (
        view,
        await digest_of(home, run_id, view=view),
        queued,
        _Place(await load_workers(home, view), await parked_reason(home, view)),
    )


def _as_json(view: RunView, digest: Digest) -> dict[str, Any]:
    return {
        "id": view.run_id,
        "folder": view.folder,
        "status": view.status,
        "resumes_at": resumes_at(view.state),
        "owner": msgspec.to_builtins(view.holder),
        "orphaned_containers": [container._asdict() for container in _orphan_containers(view)],
        "analysis": as_json(view.analysis),
        "state": msgspec.to_builtins(view.state),
        "conversations": [conversation._asdict() for conversation in conversations_of(view)],
        "rules": msgspec.to_builtins(view.state.rules),
        "needs": [_need_as_json(need, view.state) for need in digest.needs],
        "digest": {name: value for name, value in msgspec.to_builtins(digest).items() if name != "needs"},
    }


def _need_as_json(need: Need, state: RunState) -> dict[str, Any]:
    permission = state.permissions.get(need.key or "") if need.want is NeedKind.PERMISSION else None
    gate = gate_of(state, state.phase or "") if need.want is NeedKind.APPROVAL else None
    answer = {**msgspec.to_builtins(need.answer), "applied": False} if need.answer else None
    fields = need._asdict() | {"answer": answer}
    if gate is not None:
        return {**fields, "gate": msgspec.to_builtins(gate)}
    if permission is None:
        return fields
    request = {
        "title": permission.title,
        "kind": permission.kind,
        "command": permission.command,
        "paths": permission.paths,
        "diffs": msgspec.to_builtins(permission.diffs),
        "input": decode_input(permission),
        "note": permission.note,
    }
    return {**fields, "request": request}


def _report_lines(view: RunView, digest: Digest, queued: Sequence[QueuedMessage], place: _Place) -> Iterator[str]:
    state = view.state
    yield f"{paint(printable(view.run_id), 'bold')}  {paint_status(printable(status_text(view.status)))}"
    for name, value in _facts(view, place):
        yield f"  {name:10}  {printable(value)}"
    yield from _section("waiting for a provider", _limit_lines(state), "yellow")
    yield from _section("phases", paint_rows(phase_rows(state)))
    yield from _section("tasks", paint_rows(task_rows(state)))
    yield from _section("conversations", _conversation_lines(view))
    yield from _section("always allowed", (f"  {printable(line)}" for line in rule_lines(state, view.run_id)))
    yield from _section(
        "needs you", (f"  {line}" for line in format_needs(digest.needs, view.run_id, _DETAIL_LINES)), "yellow"
    )
    yield from _section("last session", (f"  {line}" for line in _last_session_lines(digest, view.run_id)))
    yield from _section("sessions and checkpoints", _timeline(view))
    yield from _section("in progress", _open_items(state))
    texts = (printable(" ".join(message.text.split())) for message in queued)
    yield from _section("messages not delivered", (f"  {shorten(text, _TEXT_CHARS)}" for text in texts), "yellow")
    yield from _section("orphaned containers", _orphan_lines(view), "yellow")
    yield ""
    placed = cluster_next_step(view, place.workers) if is_cluster_run(view.state) else None
    yield from [placed] if placed is not None else _next_step_lines(view, digest)


def _show_deleted(home: Home, run_id: str, *, as_json_: bool) -> int:
    from holdfast.engine.commands.retention.tombstone import read_tombstone  # what other runs do not need

    left = read_tombstone(home, run_id)
    print(msgspec.json.encode(left).decode() if as_json_ else "\n".join(_tombstone_lines(left)))
    return EXIT_OK


def _tombstone_lines(left: "Tombstone") -> Iterator[str]:
    yield f"{paint(printable(left.run), 'bold')}  deleted by a retention rule on {format_time(left.deleted)[:16]}"
    facts = {
        "goal": left.goal,
        "workflow": left.workflow,
        "repo": left.repo,
        "active": f"{format_time(left.created)[:16]} to {format_time(left.updated)[:16]}",
        "tasks": f"{left.tasks_done} of {left.tasks} done" if left.tasks else None,
        "merged": f"into {left.merged_into}" if left.merged_into else None,
        "spent": spent_text(left.tokens, left.dollars, left.unpriced, left.estimate),
        "log": f"{pluralize(left.events, 'event')}, {left.position} bytes, chain {left.chain}",
    }
    yield from (f"  {name:10}  {printable(value)}" for name, value in facts.items() if value)


def _limit_lines(state: RunState) -> Iterator[str]:
    for agent, text in limit_lines(state, time.time()):
        yield f"  {printable(agent)}  {printable(text)}"


def _conversation_lines(view: RunView) -> Iterator[str]:
    """Yield the conversations of a chat; in other runs, agents are shown with their tasks."""
    for conversation in conversations_of(view) if view.state.is_chat else ():
        agent = (
            "agent running"
            if conversation.is_agent_running
            else f"needs a resume: {conversation.reason}"
            if conversation.needs_resume
            else ""
        )
        queued = f"{pluralize(conversation.queued, 'message')} queued" if conversation.queued else ""
        facts = ", ".join(part for part in (agent, queued) if part)
        about = printable(f"{conversation.task or ''} {conversation.agent or ''}".strip())
        yield f"  {conversation.id}  {conversation.state:17}  {about}{f' ({facts})' if facts else ''}"


def _section(title: str, lines: Iterator[str], colour: str | None = None) -> Iterator[str]:
    first = next(lines, None)
    if first is not None:
        yield from ("", paint(title, colour or "bold"), first, *lines)


def _last_session_lines(digest: Digest, run_id: str) -> list[str]:
    """Return what the last session did; the needs of the run are in their own section."""
    return [line.removeprefix("  ") for line in format_digest(msgspec.structs.replace(digest, needs=[]), run_id)[1:]]


def _facts(view: RunView, place: _Place) -> Iterator[tuple[str, str]]:
    state = view.state
    if state.run is not None:
        yield "goal", state.run.goal
        yield "workflow", state.run.workflow
        if is_cluster_run(state):
            yield from cluster_facts(view, place.workers)
        elif state.run.repo:
            yield "repo", state.run.repo
        if state.run.adopted is not None:
            yield "adopted", _origin(state.run.adopted)
    if place.parked is not None:
        yield "parked", place.parked
    yield "folder", view.folder
    if view.holder is not None:
        yield "owner", f"pid {view.holder.pid} on {view.holder.host}, since {format_time(view.holder.since)}"
    yield (
        "log",
        f"{pluralize(state.events, 'event')} in {pluralize(len(state.sessions), 'session')}{_log_problems(state)}",
    )
    for part in state.withheld:
        day, size = format_time(part.at)[:10], format_bytes(part.bytes)
        yield "withheld", f"{pluralize(part.events, 'event')} by rule {part.rule} on {day} ({size})"
    if state.checkpoints:
        last = state.checkpoints[-1]
        yield "checkpoint", f'"{last.label}" (seq {last.seq}), {format_time(last.ts)}'
    yield from _publication_facts(state)
    spent = state.budget
    if has_spent(state):
        tokens = spent.input_tokens + spent.output_tokens
        yield "spent", spent_text(tokens, spent.dollars, unpriced_count(state), spent.estimate)


def _publication_facts(state: RunState) -> Iterator[tuple[str, str]]:
    for kind, name in (("merge.into", "merged"), ("push", "pushed"), ("pull_request", "pr")):
        made = state.published.get(kind)
        if made is not None:
            into = {"merge.into": "into ", "push": "to "}.get(kind, "")
            commit = f" (its commit {made.commit[:10]})" if made.commit else ""
            yield name, f"{into}{made.where}{commit}, {format_time(made.at)}"


def _origin(source: AdoptedFrom) -> str:
    version = f" {source.version}" if source.version else ""
    session = f", session {source.session}" if source.session else ""
    return f"from {tool_name(source.tool)}{version}{session}, {format_time(source.at)}: {source.path}"


def _log_problems(state: RunState) -> str:
    counts = [
        (len(state.repairs), "repaired torn write"),
        (len(state.malformed) + state.notes_dropped, "unreadable line"),
        (len(state.duplicates), "duplicate line"),
        (sum(state.unknown_types.values()), "unknown event"),
    ]
    text = ", ".join(pluralize(count, thing) for count, thing in counts if count)
    return f" ({text})" if text else ""


def _timeline(view: RunView) -> Iterator[str]:
    """Yield each session with its checkpoints."""
    state = view.state
    for session in list(state.sessions.values())[-MAX_ROWS:]:
        is_running = view.status == RunStatus.RUNNING and session.sid == next(reversed(state.sessions))
        ended = _session_end(session, is_running=is_running)
        command = printable(session.command or "?")
        yield f"  {printable(session.sid):12}  {command:8}  {format_time(session.started)}  {ended}"
        reached = [point for point in state.checkpoints if point.sid == session.sid]
        if len(reached) > _MAX_CHECKPOINTS:
            yield f"  {'':12}  … {pluralize(len(reached) - _MAX_CHECKPOINTS, 'checkpoint')} before"
        for point in reached[-_MAX_CHECKPOINTS:]:
            where = f" at {point.commit[:10]}" if point.commit else ""
            then = f", then {point.plan_step}" if point.plan_step else ""
            yield f"  {'':12}  {'reached':8}  {format_time(point.ts)}  {printable(point.label + where + then)}"


def _session_end(session: Session, *, is_running: bool) -> str:
    still_open = "running" if is_running else "interrupted"
    is_done = session.end_reason == EndReason.ALL_DONE and session.command not in _WORKING_COMMANDS
    ended = f"ended: {'done' if is_done else end_reason_text(session.end_reason)}" if session.ended else still_open
    taken_back = ", taken back" if session.abandoned else ""
    return f"{pluralize(session.events, 'event')}, {printable(ended)}{taken_back}"


def _open_items(state: RunState) -> Iterator[str]:
    """Yield effects without an outcome and turns without an end."""
    items = [
        *(f"effect {key}: {effect.kind} ({effect.status})" for key, effect in state.effects.items()),
        *(f"turn {c.turn.turn} of {key}" for key, c in state.conversations.items() if c.turn is not None),
    ]
    yield from (f"  {printable(item)}" for item in items[:MAX_ROWS])


def _orphan_containers(view: RunView) -> list[OrphanContainer]:
    """Return containers that still run for a run without an owner."""
    return running_containers(view.folder, view.run_id) if view.holder is None else []


def _orphan_lines(view: RunView) -> Iterator[str]:
    for orphan in _orphan_containers(view):
        if orphan.container is not None:
            yield f"  {orphan.container[:12]} at {printable(orphan.address)}; end it with: holdfast doctor --fix"
        else:
            yield f"  unknown: {printable(orphan.problem or '')}"


def _answer_hint(run_id: str, requests: Sequence[Need]) -> Iterator[str]:
    if all(need.answer is not None for need in requests):
        yield f"Apply your answer with: holdfast resume {run_id}"
    else:
        yield f"Waiting for your answer: holdfast approve {run_id}, or deny; then holdfast resume {run_id}"


def _chat_hint(view: RunView) -> str:
    if view.status == RunStatus.RUNNING:
        return f"Running. Talk with its agent: holdfast chat {view.run_id}"
    return f"Continue it with: holdfast chat {view.run_id}, or with holdfast send or holdfast accept"


def _next_step_lines(view: RunView, digest: Digest) -> Iterator[str]:
    decision = view.analysis.decision
    if view.state.is_chat and decision.case is not ResumeCase.COMPLETE:
        yield _chat_hint(view)
    elif view.status == RunStatus.RUNNING:
        yield f"Running. Watch it with: holdfast attach {view.run_id}"
    elif view.state.is_missing_plan:
        yield f"Killed before its plan was recorded; it cannot continue. Delete it with: holdfast reset {view.run_id}"
    elif decision.case is ResumeCase.COMPLETE and any(need.want is NeedKind.MESSAGE for need in digest.needs):
        yield f"Done, with a new message waiting. Deliver it with: holdfast resume {view.run_id}"
    elif decision.case is ResumeCase.COMPLETE and (target := view.state.merged_into()) is not None:
        yield f"Done, and merged into {printable(target)}. Keep only its log with: holdfast archive {view.run_id}"
    elif decision.case is ResumeCase.COMPLETE:
        done = view.status == RunStatus.DONE
        yield f"Done. Merge it with: holdfast merge {view.run_id}" if done else "Nothing to resume."
    elif decision.case in (ResumeCase.WAITING, ResumeCase.AUTO) and (
        requests := [need for need in digest.needs if need.want in _REQUEST_WANTS]
    ):
        yield from _answer_hint(view.run_id, requests)
    elif view.status in WAITING_FOR_TIME:
        sooner = "Sooner: raise budgets.day_dollars or budgets.day_tokens"
        at_once = f"At once: holdfast resume {view.run_id} --now"
        yield f"Continues by itself under holdfast watch. {sooner if view.status == 'day_budget' else at_once}"
    elif decision.case is ResumeCase.AUTO:
        yield f"Next: {printable(decision.next_step or 'as planned')}. Continue with: holdfast resume {view.run_id}"
    else:
        yield f"Needs a decision: holdfast resume {view.run_id} asks for it (details: holdfast analyze {view.run_id})"
        yield from (f"  {option.key}. {printable(option.label)}" for option in decision.options)
