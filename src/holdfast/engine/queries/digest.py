"""What happened in a run since the user last looked. Reads backwards from the log's end, and no more than necessary."""

from contextlib import suppress
from typing import NamedTuple

from holdfast.core.events.session import SessionStart
from holdfast.core.log.codec import Line, parse_lines
from holdfast.core.messages.schema import MessageKind, message_text
from holdfast.core.run_status import RunStatus
from holdfast.core.state import RunState
from holdfast.core.summary.digest import Digest, DigestBuilder
from holdfast.core.summary.needs import Need, NeedKind, needs_of, with_detail
from holdfast.engine.home import Home
from holdfast.engine.inbox.answers import waiting_answers
from holdfast.engine.queries.logs import RunView, view_run
from holdfast.store.base import Position
from holdfast.store.live_log import LiveLog

__all__ = ["MAX_READ_BYTES", "Since", "digest_of", "open_needs", "waiting_answers"]

MAX_READ_BYTES = 8 * 1024 * 1024  # bytes of log that are read; older lines are only counted as existing

Since = Position | str | None


class _Start(NamedTuple):
    """Where a range begins: at a position, at a moment, or with a session."""

    position: Position = 0
    moment: str | None = None
    sid: str | None = None


async def digest_of(home: Home, run_id: str, since: Since = None, *, view: RunView | None = None) -> Digest:
    """Return the digest since a position or a moment; by default since the newest session began."""
    view = view or await view_run(home, run_id)
    start = _find_start(view.state, since)
    gatherer, left, whole = DigestBuilder(), MAX_READ_BYTES, True
    if start is not None:
        async for batch in LiveLog(home.store.log(run_id), view.state.rewinds).read_backwards():
            if _gather_back(gatherer, batch.data[max(0, start.position - batch.start) :], start):
                break
            left -= len(batch.data)
            if batch.start <= start.position:
                break
            if left <= 0:
                whole = False
                break
    found = gatherer.build(view.state, whole=whole, running=view.status == RunStatus.RUNNING)
    found.needs = await open_needs(home, run_id, view.state)
    return found


async def open_needs(home: Home, run_id: str, state: RunState) -> list[Need]:
    """Return what needs a person, including messages that the run has not read yet."""
    answers = await waiting_answers(home, run_id, state)
    found = [with_detail(need, state)._replace(answer=answers.get(need.key or "")) for need in needs_of(state)]
    with suppress(FileNotFoundError):  # a log of another tool has no inbox
        async for _, message, _ in home.store.inbox(run_id).read(state.inbox_cursor):
            if message is not None and message.kind == MessageKind.USER:
                found.append(
                    Need(NeedKind.MESSAGE, f"not taken in yet: {message_text(bytes(message.body))}", key=message.id)
                )
    return found


def _find_start(state: RunState, since: Since) -> _Start | None:
    if isinstance(since, int):
        return _Start(position=since)
    if isinstance(since, str):
        return _Start(moment=since)
    newest = state.newest_session()
    return _Start(sid=newest.sid) if newest is not None else None


def _gather_back(gatherer: DigestBuilder, data: bytes, start: _Start) -> bool:
    """Add lines from the last to the first. Returns True when the beginning of the range was reached."""
    for line in reversed(parse_lines(data)):
        if not isinstance(line, Line):
            continue
        if start.moment is not None and line.ts is not None and line.ts < start.moment:
            return True
        event = gatherer.add(line)
        if start.sid == line.sid and isinstance(event, SessionStart):
            return True
    return False
