"""Analysis of an interrupted session and how to continue: phases 1 to 3 of the Resume Protocol, as data.

It is about the newest session without a `session.end` that no later session resumed. Its checkpoint, tasks and open
issues may come from sessions that it resumed; its active agents are its own.
"""

import msgspec

from holdfast.core import ranges
from holdfast.core.decide.resume import ResumeDecision, decide_resume, with_pending_approval
from holdfast.core.end_reason import RESUMABLE_REASONS
from holdfast.core.events.session import SessionEnd
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.state import CheckpointReached, Issue, Note, RunState, Session
from holdfast.core.summary.gates import phase_awaiting_approval
from holdfast.core.task_state import Task, TaskStatus


class SeqGap(msgspec.Struct, frozen=True):
    after_seq: int
    expected_seq: int
    actual_seq: int
    missing_count: int


class ActiveAgent(msgspec.Struct, frozen=True):
    """An agent that was working when the session was interrupted."""

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
    decision: ResumeDecision


class InterruptionDetector:
    """Finds the newest session and whether it was interrupted, reading a log's lines from the end.

    It stops at the first line of another session. So of sessions that wrote at the same time it sees only the last.
    """

    def __init__(self) -> None:
        self.sid: str | None = None
        self._ended = False
        self._seen: list[list[int]] = []

    @property
    def is_interrupted(self) -> bool:
        return self.sid is not None and not self._ended

    def feed(self, raw: bytes) -> bool:
        """Read one more line. True when no more lines are needed."""
        line = parse(raw)
        if not isinstance(line, Line):
            return False
        if self.sid is None:
            self.sid = line.sid
        if line.sid != self.sid:
            return True
        counts = ranges.add(self._seen, line.seq)  # of duplicates, the later one counts: it is read first
        self._ended = counts and _is_end(line)
        return self._ended


def _is_end(line: Line) -> bool:
    try:
        return line.type == SessionEnd.type and CODEC.event(line) is not None
    except InvalidEventData as unfit:
        return unfit.partial_event is not None


def interrupted_sessions(state: RunState) -> list[str]:
    """Sessions without an end that no later session resumed, newest first."""
    resumed = set(_resumed_sessions(state).values())
    left_open = (s for s in reversed(state.sessions.values()) if not (s.ended or s.upkeep or s.abandoned))
    return [session.sid for session in left_open if session.sid not in resumed]


def continues_earlier_session(state: RunState, session: Session) -> bool:
    """Whether this session continues the work of an earlier one in the log."""
    return session.is_resume or state.run is not None


def session_lineage(state: RunState, sid: str) -> frozenset[str]:
    """The session and all earlier sessions that it resumed, directly or through others."""
    resumed_by = _resumed_sessions(state)
    members = [sid]
    while members[-1] in resumed_by:
        members.append(resumed_by[members[-1]])
    return frozenset(members)


def _resumed_sessions(state: RunState) -> dict[str, str]:
    """For each session that resumed: the newest interrupted session before it, else the previous session."""
    found: dict[str, str] = {}
    previous: str | None = None
    interrupted: list[str] = []
    for session in state.sessions.values():
        if session.upkeep:
            continue
        if previous is not None and continues_earlier_session(state, session):
            found[session.sid] = interrupted.pop() if interrupted else previous
        if not session.ended:
            interrupted.append(session.sid)
        previous = session.sid
    return found


def session_to_resume(state: RunState) -> str | None:
    """The newest interrupted session; when none was interrupted, the newest."""
    newest = state.newest_session()
    return next(iter(interrupted_sessions(state)), newest.sid if newest is not None else None)


def analyze(state: RunState) -> Analysis:
    """The analysis of the newest session in a state.

    The state must be the fold of that session's lineage alone, which is usually the whole log.
    """
    session = state.newest_session()
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
        gaps=tuple(sequence_gaps(session)) if session else (),
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
        decision=with_pending_approval(
            decide_resume(
                finished=session is None or (session.ended and session.end_reason not in RESUMABLE_REASONS),
                checkpoint=checkpoint,
                issues=() if state.is_chat else issues,  # its user reads them and says what to do
                plan=state.plan,
                tasks=state.tasks,
                chosen=state.choice.choice if state.choice is not None else None,
            ),
            phase_awaiting_approval(state),
        ),
    )


def sequence_gaps(session: Session) -> list[SeqGap]:
    return [
        SeqGap(before[1], before[1] + 1, after[0], after[0] - before[1] - 1)
        for before, after in zip(session.seen, session.seen[1:], strict=False)
    ]
