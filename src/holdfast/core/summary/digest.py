"""While you were away: what happened in a stretch of a log, gathered from its end so that no more is read than is told.

What was interrupted and what needs a person is no matter of the stretch but of how the run stands: that is the state's.
"""

from collections.abc import Iterator

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import TurnEnded, TurnInterrupted
from holdfast.core.events.log import LogRepaired
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped
from holdfast.core.events.work import TaskCommitted, VerdictGiven
from holdfast.core.log.codec import CODEC, Line, Unfit
from holdfast.core.state import RunState, TaskStatus
from holdfast.core.summary.needs import Need, needs_of

_WANTED = frozenset(
    kind.type
    for kind in (
        *(BranchMerged, UsageRecorded, TurnEnded, TurnInterrupted, LogRepaired, SessionEnd, SessionStart),
        *(TaskCompleted, TaskFailed, TaskSkipped, TaskCommitted, VerdictGiven),
    )
)


class Digest(msgspec.Struct):
    """`whole` is False when the stretch began before the part that was read."""

    since: str | None = None
    until: str | None = None
    whole: bool = True
    events: int = 0
    sittings: int = 0
    ended: str | None = None
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
    unpriced: int = 0  # conversations that had a turn, and whose agents tell no cost
    interrupted: list[str] = []
    needs: list[Need] = []


class Gatherer:
    """Takes a stretch of a log, the newest line first."""

    def __init__(self) -> None:
        self._found = Digest()
        self._spoken: set[str] = set()  # conversations that had a turn

    def add(self, line: Line) -> Event | None:
        """Count one more line, further back. Returns the event, when it is of a kind that counts."""
        found = self._found
        found.events += 1
        found.until = found.until or line.ts
        found.since = line.ts or found.since
        if line.type not in _WANTED:
            return None
        try:
            event = CODEC.event(line)
        except Unfit as unfit:
            event = unfit.without
        if event is not None:
            self._count(event)
        return event

    def digest(self, state: RunState, *, whole: bool = True, running: bool = False) -> Digest:
        found = self._found
        for names in (found.completed, found.failed, found.skipped, found.merged):
            names[:] = dict.fromkeys(reversed(names))
        found.whole = whole
        talks = (state.conversations.get(name) for name in self._spoken)
        found.unpriced = sum(talk is not None and talk.unpriced for talk in talks)
        found.interrupted = [] if running else list(cut_off(state))
        found.needs = needs_of(state)
        return found

    def _count(self, event: Event) -> None:
        self._count_work(event)
        self._count_talk(event)

    def _count_work(self, event: Event) -> None:
        found = self._found
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

    def _count_talk(self, event: Event) -> None:
        found = self._found
        match event:
            case TurnEnded():
                found.turns += 1
                self._spoken.add(event.conversation)
            case TurnInterrupted():
                found.cut_turns += 1
                self._spoken.add(event.conversation)
            case LogRepaired():
                found.repairs += 1
            case UsageRecorded():
                found.tokens += event.input_tokens + event.output_tokens
                if event.priced or event.dollars > 0:
                    found.dollars = (found.dollars or 0.0) + event.dollars
            case SessionStart():
                found.sittings += 1
            case SessionEnd():
                found.ended = found.ended or event.reason or "ended"


def cut_off(state: RunState) -> Iterator[str]:
    """What was under way when nobody went on with it: tasks by their stage, with the calls that never came back."""
    for name, task in state.tasks.items():
        if task.status is not TaskStatus.IN_PROGRESS:
            continue
        talks = [state.conversations.get(who) for who in (task.worker, task.evaluator) if who is not None]
        turns = [talk.turn for talk in talks if talk is not None and talk.turn is not None]
        calls = [tool for turn in turns for tool in turn.calls.values()]
        where = "in the middle of a turn" if turns else "between two steps"
        yield f"{name} ({task.stage}), {where}{': ' + ', '.join(calls) if calls else ''}"
    for key, talk in state.conversations.items():
        if talk.turn is not None and talk.task not in state.tasks:
            yield f"turn {talk.turn.turn} of {key}"
