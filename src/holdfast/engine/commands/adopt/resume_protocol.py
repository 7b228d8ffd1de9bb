"""The Resume Protocol: `.claude/progress/<feature>/events.jsonl`, in the envelope that Holdfast's own logs have."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from holdfast.core.decide.analysis import (
    interrupted_sessions,
    sequence_gaps,
    session_lineage,
    session_to_resume,
)
from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.agent import AgentCompleted, AgentDied, AgentSpawned
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.issue import BlockerReported, ErrorEncountered, WarningLogged
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from holdfast.core.fold.fold import Fold, SupersededLines
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.state import RunState, Session
from holdfast.core.task_state import TaskStatus
from holdfast.core.work.foreign_tools import Tool
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.engine.commands.adopt.base import ForeignSession, Liveness, TaskWork
from holdfast.engine.commands.adopt.lines import (
    MAX_LINE_BYTES,
    head_of,
    must_be_file,
    read_object,
    rows,
    table,
    text_of,
)
from holdfast.leaf.errors import BadInput

LOG = "events.jsonl"
_VERSION = 1
_MAX_PROBLEMS = 20
_BATCH_BYTES = 1024 * 1024
_CARRIED: tuple[type[Event], ...] = (
    TaskStarted,
    TaskCompleted,
    TaskFailed,
    TaskSkipped,
    AgentSpawned,
    AgentCompleted,
    AgentDied,
    ErrorEncountered,
    BlockerReported,
    WarningLogged,
    Checkpoint,
)
_DONE = (TaskStatus.COMPLETE, TaskStatus.SKIPPED)


def is_log(path: str) -> bool:
    lines = head_of(path)
    return any({"sid", "seq", "type"} <= line.keys() for line in lines)


class _Log(NamedTuple):
    """The newest session with those that it resumed."""

    path: str
    state: RunState
    sessions: frozenset[str]
    superseded: frozenset[int]
    problems: list[str]


def read(path: str) -> ForeignSession:
    log = _read_log(path)
    state = log.state
    feature = _plain(state.feature) or os.path.basename(os.path.dirname(os.path.abspath(path)))
    sid = session_to_resume(state)
    session = state.sessions[sid] if sid is not None else None
    tasks = _tasks(state, feature)
    is_done = bool(state.tasks) and all(task.status in _DONE for task in state.tasks.values())
    ended = session is not None and session.ended
    project = _project(path)
    open_work = _open_work(state, feature)
    findings = [*_version_findings(path), *log.problems, *_gap_findings(session), *_team_findings(feature)]
    if len(interrupted_sessions(state)) > 1:
        findings.append(f"several of its sessions were interrupted; the newest, {sid}, is continued")
    adopted = ForeignSession(
        tool=Tool.RESUME_PROTOCOL,
        path=path,
        id=feature,
        goal=_goal(state, feature),
        workflow="waves",
        state="ended" if ended else "interrupted",
        end_reason=EndReason.ALL_DONE if ended and is_done else EndReason.STOPPED if ended else EndReason.INTERRUPTED,
        tasks=tasks,
        task_states={name: task.status.lower() for name, task in state.tasks.items()},
        cwd=project,
        repo=project,
        branch=_plain(session.branch if session is not None else None) or f"feature/{feature}",
        work=open_work,
        only_on_its_branch=True,  # unfinished work is on its own branches
        task_branches=(f"work/{feature}/", _known_branches(state)),
        keep_out=(".claude",),
        has_checkpoint=False,  # the log's own checkpoints count
        liveness=Liveness(
            files=(os.path.abspath(path),),
            folders=(project,) if project is not None and not ended else (),
            program="claude",
        ),
        next_step="continue as the log says: by itself, or after a decision",
        findings=findings,
    )
    adopted.before = lambda _: []
    adopted.after = lambda _: list(_events(log))
    return adopted


def _plain(name: str | None) -> str:
    return (name or "").replace("\0", "")  # no path and no branch can have one


def _lines(path: str) -> Iterator[bytes]:
    try:
        must_be_file(path)
        with open(path, "rb") as file:
            while raw := file.readline(MAX_LINE_BYTES):
                yield raw
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; adopt needs to read it") from None


def _batches(path: str) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for raw in _lines(path):
        batch.append(raw)
        size += len(raw)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _fold(path: str, only: frozenset[str] | None = None, skip: frozenset[int] = frozenset()) -> Fold:
    fold = Fold(only_sessions=only, skip_lines=skip)
    for batch in _batches(path):
        fold.feed_lines(batch)
    return fold


def _superseded(path: str, repeated: set[tuple[str, int]]) -> frozenset[int]:
    """The lines (counted from 1) whose sequence number comes again: the protocol counts the later one."""
    if not repeated:
        return frozenset()
    found = SupersededLines(repeated)
    for batch in _batches(path):
        found.feed(b"".join(raw if raw.endswith(b"\n") else raw + b"\n" for raw in batch))
    return found.lines


def _read_log(path: str) -> _Log:
    fold = _fold(path)
    target = session_to_resume(fold.state)
    if target is None:
        raise BadInput(f"{path}: no session is recorded in it, so there is nothing to adopt")
    notes = [f"line {note.line}: {note.reason}" for note in (*fold.state.malformed, *fold.state.duplicates)]
    problems = notes[:_MAX_PROBLEMS]
    if len(notes) > _MAX_PROBLEMS:
        problems.append(f"{len(notes) - _MAX_PROBLEMS} more lines of the log are damaged or doubtful")
    superseded = _superseded(path, fold.repeated)
    if superseded:
        fold = _fold(path, skip=superseded)
        target = session_to_resume(fold.state) or target
    members = session_lineage(fold.state, target)
    if members != fold.state.sessions.keys():
        fold = _fold(path, members, superseded)
    return _Log(path, fold.state, members, superseded, problems)


def _events(log: _Log) -> Iterator[Event]:
    """What the log states, in its order. Its branches are not ours, so they are left out."""
    known = set(log.state.plan.order if log.state.plan is not None else ()) | log.state.tasks.keys()
    for number, raw in enumerate(_lines(log.path), start=1):
        line = parse(raw)
        if number in log.superseded or not isinstance(line, Line) or line.sid not in log.sessions:
            continue
        try:
            event = CODEC.event(line)
        except InvalidEventData as unfit:
            event = unfit.partial_event
        if isinstance(event, _CARRIED):
            yield _without_branch(event, known)


def _without_branch(event: Event, known: set[str]) -> Event:
    if isinstance(event, AgentSpawned):
        task = event.task if str(event.task) in known else None
        return msgspec.structs.replace(event, branch=None, pid=None, task=task)
    if isinstance(event, Checkpoint):
        return msgspec.structs.replace(event, branch=None, commit=None)
    return event


def _goal(state: RunState, feature: str) -> str:
    overview = state.plan.overview.strip() if state.plan is not None else ""
    return overview.splitlines()[0] if overview else feature


def _tasks(state: RunState, feature: str) -> TaskList:
    plan = state.plan
    names = list(dict.fromkeys((*(plan.order if plan is not None else ()), *state.tasks)))
    needed = plan.blocked_by if plan is not None else {}
    found = tuple(
        TaskSpec(
            id=name,
            title=(state.tasks[name].summary if name in state.tasks else None) or name,
            description=state.tasks[name].description if name in state.tasks else "",
            acceptance_criteria=tuple(state.tasks[name].acceptance_criteria if name in state.tasks else ()),
            depends_on=tuple(other for other in needed.get(name, ()) if other in names),
            files=tuple((state.tasks[name].files if name in state.tasks else None) or ()),
        )
        for name in names
    )
    return TaskList(tasks=found or (TaskSpec(id="T-1", title=feature),), overview=plan.overview if plan else "")


def _open_work(state: RunState, feature: str) -> tuple[TaskWork, ...]:
    """The branches of tasks in progress, by the agents that work on them."""
    branches = {
        agent.task: _plain(agent.branch)
        for agent in state.agents.values()
        if agent.task is not None and agent.branch is not None
    }
    found = []
    for name, task in state.tasks.items():
        if task.status in (TaskStatus.IN_PROGRESS, TaskStatus.FAILED):
            branch = branches.get(name, f"work/{feature}/{name}")
            found.append(TaskWork(task=name, branch=branch, is_failed=task.status is TaskStatus.FAILED))
    return tuple(found)


def _known_branches(state: RunState) -> frozenset[str]:
    of_agents = {agent.branch for agent in state.agents.values() if agent.branch is not None}
    return frozenset({*of_agents, *state.branches})


def _version_findings(path: str) -> list[str]:
    unknown = {text_of(line.get("v")) for line in head_of(path) if line.get("v", _VERSION) != _VERSION}
    if not unknown:
        return []
    return [f"lines of the unknown version {', '.join(sorted(unknown))} are left out"]


def _gap_findings(session: Session | None) -> list[str]:
    gaps = sequence_gaps(session) if session is not None else []
    missing = sum(gap.missing_count for gap in gaps)
    return [f"{missing} of its events are missing, from seq {gaps[0].expected_seq} on"] if gaps else []


def _team_findings(feature: str) -> list[str]:
    path = os.path.join(os.path.expanduser("~"), ".claude", "teams", feature, "config.json")
    team = read_object(path)
    if team is None:
        return [f"there is no team at {path}; the roster is recreated from the log"]
    names = (text_of(table(member).get("name")) for member in rows(team.get("members")))
    members = [name for name in names if name]
    return [f"the team {feature} has {', '.join(members) or 'no members'}"]


def _project(path: str) -> str | None:
    """The project that has the log in its `.claude/progress`."""
    parts = os.path.abspath(path).split(os.sep)
    if parts[-4:-2] == [".claude", "progress"]:
        return os.sep.join(parts[:-4]) or os.sep
    return None
