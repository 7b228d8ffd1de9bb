"""Tilth: `sessions/<id>/` with checkpoint.json, events.jsonl, task-status.json (or prd.json), and ledgers."""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.decide.attribution import EVALUATOR, WORKER
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.base import JSON_NULL
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskStarted, WaveCompleted, WaveStarted
from holdfast.core.events.work import CaseSubmitted, VerdictGiven
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.engine.commands.adopt.base import (
    NO_TASKS,
    Entry,
    EntryKind,
    ForeignConversation,
    ForeignSession,
    Liveness,
    Spent,
    TaskWork,
)
from holdfast.engine.commands.adopt.lines import (
    JsonLines,
    head_of,
    number,
    plausible_amount,
    read_object,
    read_text,
    rows,
    table,
    text_of,
)
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.workflows.tasklists import read_tasks

_EVENTS = "events.jsonl"
_REASONS = {"wall_clock": EndReason.WALL_CLOCK, "token_cap": EndReason.TOKEN_CAP, "all_done": EndReason.ALL_DONE}
_REASONS |= {name: EndReason(name) for name in ("iter_cap", "evaluator_cap", "no_case", "empty_responses")}
DONE, FAILED, PENDING = "done", "failed", "pending"


_STARTS = ("session_start", "session_prepared")


def is_session(folder: str) -> bool:
    """A session by its checkpoint; by its log when the checkpoint is missing or torn, as a kill can leave it."""
    if "session_id" in (read_object(os.path.join(folder, "checkpoint.json")) or {}):
        return True
    first = head_of(_events_file(folder), 5) if os.path.isfile(_events_file(folder)) else []
    return any(item.get("type") in _STARTS and isinstance(item.get("payload"), dict) for item in first)


class _Overview:
    """One pass over the events: what is needed before the history is read."""

    def __init__(self, path: str) -> None:
        self.start: dict[str, Any] = {}  # what the session was started with
        self.stop: str | None = None
        self.current: str | None = None  # the newest task
        self.tasks: list[str] = []
        self.evaluated: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self.ends: dict[str, str] = {}  # of the tasks that ended, by what the log says
        self.lines = JsonLines(path) if os.path.isfile(path) else None
        if self.lines is None:
            return
        for _, event in self.lines:
            self._add(str(event.get("type")), table(event.get("payload")), event)

    def _add(self, kind: str, payload: dict[str, Any], event: dict[str, Any]) -> None:
        task = _task_of(event)
        if kind in ("session_start", "session_resume"):
            self.start = self.start or payload
            self.stop = None
        elif kind == "stop":
            self.stop = text_of(payload.get("reason"))
        if task is None:
            return
        if task not in self.tasks:
            self.tasks.append(task)
        self.current = task
        if kind == "context_reset":
            self.ends.pop(task, None)
            self.attempts[task] = self.attempts.get(task, 0) + 1
        elif kind == "evaluator_verdict" or payload.get("role") == EVALUATOR:
            self.evaluated.add(task)
        elif kind in ("task_done", "task_failed"):
            self.ends[task] = DONE if kind == "task_done" else FAILED
            self.reasons[task] = text_of(payload.get("reason"))


def read(folder: str) -> ForeignSession:
    checkpoint = read_object(os.path.join(folder, "checkpoint.json")) or {}
    overview = _Overview(_events_file(folder))
    statuses = _statuses(folder)
    statuses = overview.ends if statuses is None else statuses
    if overview.current in statuses:
        overview.current = None  # it ended: a status is written after its event
    feature_dir = text_of(checkpoint.get("feature_dir") or overview.start.get("feature_dir"))
    source = text_of(checkpoint.get("source") or overview.start.get("source")) or None
    tasks = _tasks(folder, feature_dir)
    unfinished = next((task for task, status in statuses.items() if status == FAILED), None) or overview.current
    is_done = overview.stop == EndReason.ALL_DONE or checkpoint.get("status") == EndReason.ALL_DONE
    session_id = text_of(checkpoint.get("session_id")) or _named_id(folder, overview)
    workspace = text_of(checkpoint.get("workspace") or overview.start.get("worktree"))
    beside = os.path.join(folder, "workspace")
    workspace = workspace or beside
    session = ForeignSession(
        tool=Tool.TILTH,
        version="0.2 or newer" if feature_dir else "seed era",
        path=folder,
        id=session_id,
        goal=f"Tilth {os.path.basename(feature_dir)}" if feature_dir else f"Tilth session {session_id}",
        workflow="loop",
        state=overview.stop or _state_without_stop(checkpoint.get("status")),
        end_reason=EndReason.ALL_DONE if is_done else _REASONS.get(overview.stop or "", EndReason.INTERRUPTED),
        tasks=tasks,
        plan_folder=_inside(feature_dir, source),
        task_states=statuses,
        conversations=tuple(_conversations(overview, statuses)),
        history=lambda: _history(folder),
        spent=_spent(folder, checkpoint),
        cwd=workspace if os.path.isdir(workspace) else beside if os.path.isdir(beside) else None,
        repo=source,
        branch=text_of(checkpoint.get("branch") or overview.start.get("branch")) or f"session/{session_id}",
        branch_in=_bundle(folder),
        work=_work(unfinished, statuses),
        liveness=Liveness(
            folders=(workspace, folder),
            files=(_events_file(folder),),
            words=(session_id,),
            own_program="tilth" if overview.stop is None else None,
            repositories=(source,) if source is not None else (),
        ),
        findings=_findings(folder, checkpoint, overview),
    )
    session.before = lambda plan: _started(folder, plan, statuses)
    session.after = lambda plan: _progress(plan, statuses, overview)
    session.next_step = _next_step(statuses, unfinished, is_done=is_done)
    if tasks is NO_TASKS and session.plan_folder is None:
        session.tasks = _bare_tasks(folder, overview.tasks, statuses)
        session.findings.append("its task list is not there any more; the tasks have only their titles")
    return session


def _state_without_stop(status: Any) -> str:
    return status if status in (EndReason.ALL_DONE, "prepared") else "interrupted"


def _named_id(folder: str, overview: _Overview) -> str:
    """The id of a session whose checkpoint is lost: its branch has it, and so has its folder."""
    branch = text_of(overview.start.get("branch"))
    return branch.removeprefix("session/") if branch.startswith("session/") else os.path.basename(folder)


def _findings(folder: str, checkpoint: dict[str, Any], overview: _Overview) -> list[str]:
    found = []
    if not checkpoint:
        found.append("checkpoint.json is missing or damaged; what the log and the other files say counts")
    if overview.lines is None:
        found.append("events.jsonl is missing; the states of its tasks are known, its history is not")
    elif (text := overview.lines.finding()) is not None:
        found.append(text)
    if checkpoint.get("archived") is True:
        found.append("Tilth archived it and deleted its branch: its work counts as far as the repository has it")
    known = read_object(os.path.join(folder, "task-status.json")) or {}
    unknown = sorted({text_of(status) for status in known.values()} - {DONE, FAILED, PENDING})
    if unknown:
        found.append(f"task-status.json has the unknown status {', '.join(unknown)}; these tasks count as pending")
    return found


def fallback_tasks(session: ForeignSession) -> TaskList:
    """The tasks with their titles only, for a session whose task list cannot be found."""
    return _bare_tasks(session.path, _Overview(_events_file(session.path)).tasks, session.task_states)


def _events_file(folder: str) -> str:
    return os.path.join(folder, _EVENTS)


def _next_step(statuses: dict[str, str], unfinished: str | None, *, is_done: bool) -> str:
    if is_done:
        return "nothing: the work is done; merge it"
    if unfinished is not None and statuses.get(unfinished) == FAILED:
        return f"retry {unfinished} on its work so far (--on-issue retry), then the tasks after it"
    return f"continue {unfinished} on its work so far" if unfinished else "continue with the next task"


def _work(task: str | None, statuses: dict[str, str]) -> tuple[TaskWork, ...]:
    if task is None:
        return ()
    return (TaskWork(task=task, subject=f"{task}: FAILED", is_failed=statuses.get(task) == FAILED),)


def _bundle(folder: str) -> str | None:
    """A bundle of the repository beside the session, as in an archive of both."""
    path = os.path.join(os.path.dirname(folder), "repo.bundle")
    return path if os.path.isfile(path) else None


def _inside(feature_dir: str, source: str | None) -> str | None:
    """The feature's folder relative to the repository: the session's branch has it too."""
    if not feature_dir:
        return None
    if source and feature_dir.startswith(source.rstrip("/") + "/"):
        return os.path.relpath(feature_dir, source)
    return os.path.join(".tilth", os.path.basename(feature_dir))


def _tasks(folder: str, feature_dir: str) -> TaskList:
    for path in (os.path.join(folder, "prd.json"), feature_dir):
        if path and os.path.exists(path):
            try:
                return read_tasks(path)
            except HoldfastError:
                continue
    return NO_TASKS


def _bare_tasks(folder: str, seen: list[str], statuses: dict[str, str]) -> TaskList:
    titles = {}
    for line in (read_text(os.path.join(folder, "progress.txt")) or "").splitlines():
        task, _, rest = line.partition("\t")
        titles[task] = rest.partition("\t")[2]
    names = dict.fromkeys((*seen, *statuses))
    if not names:
        raise BadInput(f"{folder}: Tilth recorded no task there, so there is nothing to adopt")
    return TaskList(tasks=tuple(TaskSpec(id=name, title=titles.get(name) or name) for name in names))


def _statuses(folder: str) -> dict[str, str] | None:
    """By task; None when no file says it."""
    found = read_object(os.path.join(folder, "task-status.json"))
    if found is not None:
        return {task: text_of(status) for task, status in found.items() if status in (DONE, FAILED)}
    lines = read_text(os.path.join(folder, "prd.json"))
    if lines is None:
        return None
    try:
        listed = rows(msgspec.json.decode(lines.encode()))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    items = [table(item) for item in listed]
    return {text_of(item.get("id")): text_of(item["status"]) for item in items if item.get("status") in (DONE, FAILED)}


def _spent(folder: str, checkpoint: dict[str, Any]) -> Spent:
    usage = [table(part) for part in table(checkpoint.get("usage")).values()]
    if not checkpoint:
        usage = [table((read_object(os.path.join(folder, "summary.json")) or {}).get("tokens"))]
    if not any(usage):
        return Spent(input_tokens=number(checkpoint.get("tokens_used")))
    return Spent(
        input_tokens=sum(number(part.get("prompt")) for part in usage),
        output_tokens=sum(number(part.get("eval")) for part in usage),
        dollars=sum(plausible_amount(part.get("cost")) for part in usage),
    )


def _conversations(overview: _Overview, statuses: dict[str, str]) -> Iterator[ForeignConversation]:
    for task in overview.tasks:
        is_done = statuses.get(task) == DONE
        yield ForeignConversation(
            key=f"{WORKER}/{task}",
            role=WORKER,
            task=task,
            is_over=is_done,
            interrupted=task == overview.current,
        )
        if task in overview.evaluated:
            yield ForeignConversation(key=f"{EVALUATOR}/{task}", role=EVALUATOR, task=task, is_over=True)


def _started(folder: str, plan: TaskList, statuses: dict[str, str]) -> list[Event]:
    """Starts and verdicts. They come before the conversations: those agents know nothing of Holdfast's tools."""
    events: list[Event] = []
    for wave, task in enumerate(plan.tasks, start=1):
        if task.id in statuses:
            events += [WaveStarted(wave=wave), TaskStarted(task_id=task.id, summary=task.title)]
        events += _verdicts(folder, task.id)
    return events


def _progress(plan: TaskList, statuses: dict[str, str], overview: _Overview) -> list[Event]:
    events: list[Event] = []
    for wave, task in enumerate(plan.tasks, start=1):
        if statuses.get(task.id) == DONE:
            events += [
                TaskCompleted(task_id=task.id, summary=task.title),
                WaveCompleted(wave=wave),
                Checkpoint(label=f"wave-{wave}-complete", plan_step=f"wave-{wave + 1}-start"),
            ]
    if overview.current is not None and overview.current not in statuses:  # after its history: it is told its job anew
        places = {task.id: place for place, task in enumerate(plan.tasks, start=1)}
        if overview.current in places:
            events.append(WaveStarted(wave=places[overview.current]))
        events.append(TaskStarted(task_id=overview.current))
    failed = [
        TaskFailed(
            task_id=task,
            error=_REASONS.get(overview.reasons.get(task, ""), overview.reasons.get(task) or EndReason.FAILED),
            attempts=overview.attempts.get(task, 1),
        )
        for task, status in statuses.items()
        if status == FAILED
    ]
    return [*events, *failed]


def _verdicts(folder: str, task: str) -> list[Event]:
    """The ledger of a task. Its iterations are numbered as Tilth did; a retry starts again."""
    path = os.path.join(folder, "ledger", f"{task}.jsonl")
    if not os.path.isfile(path):
        return []
    events: list[Event] = []
    for _, item in JsonLines(path):
        verdict, iteration = table(item.get("verdict")), number(item.get("iter"))
        if not verdict:
            continue
        case = item.get("case")
        events.append(CaseSubmitted(task_id=task, iteration=iteration, case=_raw(case)))
        evidence = "\n".join(text_of(part) for part in rows(verdict.get("evidence")))
        events.append(
            VerdictGiven(
                task_id=task,
                iteration=iteration,
                accept=verdict.get("verdict") == "accept",
                category=text_of(verdict.get("rejection_category")) or None,
                concern=text_of(verdict.get("concern")) or None,
                evidence=evidence or None,
                next_step=text_of(verdict.get("next_step")) or None,
            )
        )
    return events


def _raw(value: Any) -> Any:
    return msgspec.Raw(msgspec.json.encode(value)) if value is not None else JSON_NULL


def _task_of(event: dict[str, Any]) -> str | None:
    found = event.get("task_id") or table(event.get("payload")).get("task_id")
    return found if isinstance(found, str) and found else None


def _history(folder: str) -> Iterator[Entry]:
    if not os.path.isfile(_events_file(folder)):
        return
    calls: dict[str, str] = {}  # the open call of each conversation
    for position, event in JsonLines(_events_file(folder)):
        task = _task_of(event)
        if task is None:
            continue
        entry = _entry(str(event.get("type")), table(event.get("payload")), task, calls, position)
        if entry is not None:
            at = event.get("ts")
            yield entry._replace(at=at if isinstance(at, str) else None)


def _entry(kind: str, payload: dict[str, Any], task: str, calls: dict[str, str], position: int) -> Entry | None:
    worker, evaluator = f"{WORKER}/{task}", f"{EVALUATOR}/{task}"
    tool = text_of(payload.get("tool"))
    match kind:
        case "prompt_assembled":
            key = evaluator if payload.get("role") == EVALUATOR else worker
            return Entry(key, EntryKind.USER, _EVENTS, position, text=text_of(payload.get("content")))
        case "tool_call":
            calls[worker] = f"tilth-{position}"
            return Entry(
                worker, EntryKind.CALL, _EVENTS, position, tool=tool, call=calls[worker], data=payload.get("args")
            )
        case "tool_result" | "pre_tool_block":
            preview = text_of(payload.get("result_preview") or payload.get("result") or payload.get("reason"))
            call = calls.pop(worker, None)
            if call is None:
                return None
            is_blocked = kind == "pre_tool_block"
            return Entry(
                worker, EntryKind.RESULT, _EVENTS, position, tool=tool, call=call, data=preview, failed=is_blocked
            )
        case "evaluator_verdict":
            text = f"{text_of(payload.get('verdict'))}: {text_of(payload.get('concern'))}"
            return Entry(evaluator, EntryKind.AGENT, _EVENTS, position, text=text)
        case _:
            return None
