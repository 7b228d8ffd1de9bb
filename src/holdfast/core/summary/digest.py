"""While you were away: what happened in the last part of a log, read from its end so that no more is read than needed.

Interrupted work and needs come from the current state, not from that part of the log.
"""

from collections.abc import Iterator

import msgspec

from holdfast.core.end_reason import EndReason, end_reason_text
from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import TurnEnded, TurnInterrupted
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped
from holdfast.core.events.work import TaskCommitted, VerdictGiven
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, needs_of
from holdfast.core.task_state import TaskStatus

_COUNTED_TYPES = frozenset(
    kind.type
    for kind in (
        *(BranchMerged, UsageRecorded, TurnEnded, TurnInterrupted, LogRepaired, SessionEnd, SessionStart),
        *(TaskCompleted, TaskFailed, TaskSkipped, TaskCommitted, VerdictGiven),
    )
)
_STOPPED_BY_ITSELF = frozenset({EndReason.PARKED, EndReason.ERROR, EndReason.DISK_SPACE})


class Digest(msgspec.Struct):
    """`whole` is False when the period began before the part that was read."""

    since: str | None = None
    until: str | None = None
    whole: bool = True
    events: int = 0
    sittings: int = 0
    ended: str | None = None
    why: str | None = None  # what stopped a session that ended by itself before its work was done
    completed: list[str] = []
    failed: list[str] = []
    skipped: list[str] = []
    commits: int = 0
    merged: list[str] = []
    accepted: int = 0
    rejected: int = 0
    turns: int = 0
    cut_turns: int = 0
    repairs: int = 0
    tokens: int = 0
    dollars: float | None = None
    estimate: float | None = None  # by a table of prices
    unpriced: int = 0  # conversations with turns whose agents report no cost
    interrupted: list[str] = []
    needs: list[Need] = []


class DigestBuilder:
    """Counts the lines of a part of a log, the newest first."""

    def __init__(self) -> None:
        self._digest = Digest()
        self._conversations_with_turns: set[str] = set()
        self._summaries: dict[str, str] = {}  # of sessions

    def add(self, line: Line) -> Event | None:
        """Count one more, older line. Returns the event if its type is counted."""
        found = self._digest
        found.events += 1
        found.until = found.until or line.ts
        found.since = line.ts or found.since
        if line.type not in _COUNTED_TYPES:
            return None
        try:
            event = CODEC.event(line)
        except InvalidEventData as unfit:
            event = unfit.partial_event
        if isinstance(event, SessionEnd) and event.summary:
            self._summaries[line.sid] = event.summary
        if event is not None:
            self._count(event)
        return event

    def build(self, state: RunState, *, whole: bool = True, running: bool = False) -> Digest:
        found = self._digest
        for names in (found.completed, found.failed, found.skipped, found.merged):
            names[:] = dict.fromkeys(reversed(names))
        found.whole = whole
        conversations = (state.conversations.get(key) for key in self._conversations_with_turns)
        found.unpriced = sum(each is not None and each.has_unknown_cost for each in conversations)
        found.interrupted = [] if running else list(interrupted_work(state))
        newest = state.newest_session()  # not a merge or a push since, which may have failed too
        if newest is not None and newest.end_reason in _STOPPED_BY_ITSELF and newest.sid in self._summaries:
            found.why = f"{end_reason_text(newest.end_reason)}: {self._summaries[newest.sid]}"
        found.needs = needs_of(state)
        return found

    def _count(self, event: Event) -> None:
        self._count_work(event)
        self._count_session(event)

    def _count_work(self, event: Event) -> None:
        found = self._digest
        match event:
            case TaskCompleted():
                found.completed.append(str(event.task_id))
            case TaskFailed():
                found.failed.append(str(event.task_id))
            case TaskSkipped():
                found.skipped.append(str(event.task_id))
            case TaskCommitted():
                found.commits += event.commit is not None
            case BranchMerged():
                found.merged.append(event.name)
            case VerdictGiven():
                found.accepted += event.accept
                found.rejected += not event.accept

    def _count_session(self, event: Event) -> None:
        found = self._digest
        match event:
            case TurnEnded():
                found.turns += 1
                self._conversations_with_turns.add(event.conversation)
            case TurnInterrupted():
                found.cut_turns += 1
                self._conversations_with_turns.add(event.conversation)
            case LogRepaired():
                found.repairs += 1
            case UsageRecorded():
                found.tokens += event.input_tokens + event.output_tokens
                if event.estimate is not None:
                    found.estimate = (found.estimate or 0.0) + event.estimate
                if event.priced or event.dollars > 0:
                    found.dollars = (found.dollars or 0.0) + event.dollars
            case SessionStart():
                found.sittings += 1
            case SessionEnd():
                found.ended = found.ended or event.reason or "ended"


def interrupted_work(state: RunState) -> Iterator[str]:
    """Work that was interrupted: tasks with their stage and the tool calls that never returned."""
    for name, task in state.tasks.items():
        if task.status is not TaskStatus.IN_PROGRESS:
            continue
        conversations = [state.conversations.get(key) for key in (task.worker, task.evaluator) if key is not None]
        turns = [each.turn for each in conversations if each is not None and each.turn is not None]
        calls = [tool for turn in turns for tool in turn.calls.values()]
        where = "in the middle of a turn" if turns else "between two steps"
        yield f"{name} ({task.stage}), {where}{': ' + ', '.join(calls) if calls else ''}"
    for key, conversation in state.conversations.items():
        if conversation.turn is not None and conversation.task not in state.tasks:
            yield f"turn {conversation.turn.turn} of {key}"
