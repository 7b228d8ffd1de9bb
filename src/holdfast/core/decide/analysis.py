"""What an interrupted session left behind, and how to go on: the Resume Protocol's phases 1 to 3, as data.

The session to look at is the newest that has no `session.end`, unless a later one resumed it. Its checkpoint, its
tasks and the issues that still stand may come from sittings that it resumed; its active agents are its own.
"""

import msgspec

from holdfast.core import ranges
from holdfast.core.decide.resume import Decision, at_gate, decide_resume
from holdfast.core.end_reason import WORK_LEFT
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import CODEC, Line, Unfit, parse
from holdfast.core.state import CheckpointReached, Issue, Note, RunState, Session, Task, TaskStatus
from holdfast.core.summary.gates import asks_approval


class SeqGap(msgspec.Struct, frozen=True):
    after_seq: int
    expected_seq: int
    actual_seq: int
    missing_count: int


class ActiveAgent(msgspec.Struct, frozen=True):
    """An agent that was spawned and never completed: it was at work when the session was cut off."""

    name: str
    role: str | None = None
    task: str | None = None
    branch: str | None = None


class Analysis(msgspec.Struct, frozen=True):
    feature: str | None
    sid: str | None
    interrupted: bool
    events: int
    first_seq: int | None
    last_seq: int | None
    gaps: tuple[SeqGap, ...]
    checkpoint: CheckpointReached | None
    planned: bool
    tasks: dict[str, Task]
    pending: tuple[str, ...]
    active_agents: tuple[ActiveAgent, ...]
    issues: tuple[Issue, ...]
    warnings: tuple[Issue, ...]
    malformed: tuple[Note, ...]
    duplicates: tuple[Note, ...]
    interrupted_sessions: tuple[str, ...]
    decision: Decision


class Detection:
    """Which session is the newest, and whether it was cut off, from a log's lines shown from its end.

    It stops where another session begins. So of sessions that wrote at the same time it knows only the last.
    """

    def __init__(self) -> None:
        self.sid: str | None = None
        self._ended = False
        self._seen: list[list[int]] = []

    @property
    def interrupted(self) -> bool:
        return self.sid is not None and not self._ended

    def show(self, raw: bytes) -> bool:
        """Look at one more line. True when no further one is needed."""
        line = parse(raw)
        if not isinstance(line, Line):
            return False
        if self.sid is None:
            self.sid = line.sid
        if line.sid != self.sid:
            return True
        counts = ranges.add(self._seen, line.seq)  # of two with one number, the later does: it was shown first
        self._ended = counts and _is_end(line)
        return self._ended


def _is_end(line: Line) -> bool:
    try:
        return line.type == SessionEnd.type and CODEC.event(line) is not None
    except Unfit as unfit:
        return unfit.without is not None


def interrupted_sessions(state: RunState) -> list[str]:
    """Sessions without an end that no later session resumed, newest first."""
    resumed = set(_went_on_with(state).values())
    return [s.sid for s in reversed(state.sessions.values()) if not (s.ended or s.upkeep or s.sid in resumed)]


def continues(state: RunState, session: Session) -> bool:
    """True when this session goes on with the work of an earlier one in the log."""
    return session.resumed or state.run is not None


def lineage(state: RunState, sid: str) -> frozenset[str]:
    """The session and the sittings before it that it, step by step, resumed."""
    went_on_with = _went_on_with(state)
    members = [sid]
    while members[-1] in went_on_with:
        members.append(went_on_with[members[-1]])
    return frozenset(members)


def _went_on_with(state: RunState) -> dict[str, str]:
    """For each session that resumed: the newest one before it that was cut off; if none was, the one before it."""
    found: dict[str, str] = {}
    previous: str | None = None
    cut_off: list[str] = []
    for session in state.sessions.values():
        if session.upkeep:
            continue
        if previous is not None and continues(state, session):
            found[session.sid] = cut_off.pop() if cut_off else previous
        if not session.ended:
            cut_off.append(session.sid)
        previous = session.sid
    return found


def session_to_resume(state: RunState) -> str | None:
    """The newest interrupted session; when none was interrupted, the newest."""
    newest = state.newest_sitting()
    return next(iter(interrupted_sessions(state)), newest.sid if newest is not None else None)


def analyze(state: RunState) -> Analysis:
    """The analysis of the newest session in a state.

    The state must be the fold of that session's `lineage` alone, which most often is the whole log.
    """
    session = state.newest_sitting()
    interrupted = session is not None and not session.ended
    checkpoint = state.checkpoints[-1] if state.checkpoints else None
    tasks = {name: task for name, task in state.tasks.items() if task.status is not TaskStatus.PENDING}
    issues = tuple(state.issues)
    return Analysis(
        feature=state.feature,
        sid=session.sid if session else None,
        interrupted=interrupted,
        events=session.events if session else 0,
        first_seq=session.seen[0][0] if session else None,
        last_seq=session.seen[-1][1] if session else None,
        gaps=tuple(gaps_of(session)) if session else (),
        checkpoint=checkpoint,
        planned=state.plan is not None,
        tasks=tasks,
        pending=tuple(name for name, task in state.tasks.items() if task.status is TaskStatus.PENDING),
        active_agents=tuple(
            ActiveAgent(name, agent.role, agent.task, agent.branch)
            for name, agent in state.agents.items()
            if session is not None and agent.active and agent.sid == session.sid
        ),
        issues=issues,
        warnings=tuple(state.warnings),
        malformed=tuple(state.malformed),
        duplicates=tuple(state.duplicates),
        interrupted_sessions=tuple(interrupted_sessions(state)),
        decision=at_gate(
            decide_resume(
                finished=session is None or (session.ended and session.end_reason not in WORK_LEFT),
                checkpoint=checkpoint,
                issues=issues,
                plan=state.plan,
                tasks=state.tasks,
                chosen=state.choice.choice if state.choice is not None else None,
            ),
            asks_approval(state),
        ),
    )


def gaps_of(session: Session) -> list[SeqGap]:
    return [
        SeqGap(before[1], before[1] + 1, after[0], after[0] - before[1] - 1)
        for before, after in zip(session.seen, session.seen[1:], strict=False)
    ]
