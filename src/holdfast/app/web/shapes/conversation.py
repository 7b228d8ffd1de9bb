"""Conversations and sessions of a run."""

import msgspec

from holdfast.core.end_reason import end_reason_text
from holdfast.core.state import RunState, Session
from holdfast.engine.queries.conversations import ConversationStatus

MAX_SESSIONS = 200


class ConversationView(msgspec.Struct, frozen=True):
    """A conversation: whether an agent is there for it, and whether the next message must resume it first."""

    id: str
    agent: str | None
    role: str | None
    task: str | None
    about: str | None
    state: str
    needs_resume: bool
    resume_reason: str
    is_agent_running: bool
    is_resumable: bool
    turns: int
    last_stop: str | None
    queued: int
    options: dict[str, str]
    turn: str | None
    mode: str | None
    tokens: int
    dollars: float | None
    estimate: float | None


class ConversationList(msgspec.Struct, frozen=True):
    conversations: list[ConversationView]


class SessionView(msgspec.Struct, frozen=True):
    """A session. `stop_reason` is killed when it died before it could record one."""

    sid: str
    command: str | None
    started: str | None
    last: str | None
    ended: bool
    reason: str | None
    stop_reason: str
    reason_text: str
    events: int
    upkeep: bool


def conversation_view(state: RunState, status: ConversationStatus) -> ConversationView:
    known = state.conversations[status.id]
    return ConversationView(
        id=status.id,
        agent=status.agent,
        role=status.role,
        task=status.task,
        about=known.about,
        state=str(status.state),
        needs_resume=status.needs_resume,
        resume_reason=str(status.reason),
        is_agent_running=status.is_agent_running,
        is_resumable=status.is_resumable,
        turns=status.turns,
        last_stop=status.last_stop,
        queued=status.queued,
        options=status.options,
        turn=known.turn.turn if known.turn is not None else None,
        mode=known.mode,
        tokens=known.tokens,
        dollars=known.cost if known.priced else None,
        estimate=known.estimate,
    )


def session_views(state: RunState, *, running: bool) -> list[SessionView]:
    sessions = list(state.sessions.values())[-MAX_SESSIONS:]
    newest = state.newest_session()
    return [_session_view(session, running=running and session is newest) for session in sessions]


def _session_view(session: Session, *, running: bool) -> SessionView:
    stop_reason = "running" if running and not session.ended else session.stop_reason
    return SessionView(
        session.sid,
        session.command,
        session.started,
        session.last,
        session.ended,
        session.end_reason,
        stop_reason,
        end_reason_text(session.end_reason) if session.ended and session.end_reason else stop_reason,
        session.events,
        session.upkeep,
    )
