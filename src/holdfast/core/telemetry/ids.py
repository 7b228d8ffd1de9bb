"""The `trace_id` and `span_id` of events. They follow from what an event is about: every reader gets the same ids."""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from holdfast.core.events import TYPES, Event
from holdfast.core.events.conversation import (
    ConversationOpened,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.state import RunState

_TRACE_CHARS, _SPAN_CHARS = 32, 16
_CALLS = (ToolCalled, ToolDetailed, ToolReturned)


def trace_id_of(run_id: str) -> str:
    return hashlib.sha256(f"holdfast trace {run_id}".encode()).hexdigest()[:_TRACE_CHARS]


@lru_cache(maxsize=256)
def span_id_of(trace_id: str, kind: str, *names: str) -> str:
    """The id of a run (`run`), a phase, a task, a turn, or a tool call in a turn."""
    return hashlib.sha256("\0".join((trace_id, kind, *names)).encode()).hexdigest()[:_SPAN_CHARS]


class TraceIds:
    """The ids of events as they are written, starting from a state."""

    def __init__(self, run_id: str, state: RunState) -> None:
        self.trace_id = trace_id_of(run_id)
        self._run = span_id_of(self.trace_id, "run")
        self._turns = {
            name: conversation.turn.turn
            for name, conversation in state.conversations.items()
            if conversation.turn is not None
        }
        self._tasks = {
            name: conversation.task
            for name, conversation in state.conversations.items()
            if conversation.task is not None
        }
        self._rules = {kind: rule for kind in TYPES.values() if (rule := self._rule(kind)) is not None}

    def span_of(self, event: Event) -> str:
        rule = self._rules.get(type(event))
        return rule(event) if rule is not None else self._run

    def _rule(self, kind: type[Event]) -> Callable[..., str] | None:
        fields = kind.__struct_fields__
        if kind in _CALLS:
            return self._span_of_call
        if kind is TurnStarted:
            return self._begin_turn
        if kind in (TurnEnded, TurnInterrupted):
            return self._end_turn
        if kind is ConversationOpened:
            return self._open
        if "conversation" in fields:
            return self._span_of_conversation
        if "task_id" in fields:
            return lambda event: self._span_of_task(event.task_id)
        if "task" in fields:
            return lambda event: self._span_of_task(event.task)
        if "phase" in fields:
            return lambda event: span_id_of(self.trace_id, "phase", str(event.phase))
        return None

    def _span_of_task(self, task: str | int | None) -> str:
        return span_id_of(self.trace_id, "task", str(task)) if task is not None else self._run

    def _open(self, event: ConversationOpened) -> str:
        if event.task is not None:
            self._tasks[event.conversation] = str(event.task)
        return self._span_of_task(event.task)

    def _span_of_turn(self, conversation: str, turn: str) -> str:
        return span_id_of(self.trace_id, "turn", conversation, turn)

    def _begin_turn(self, event: TurnStarted) -> str:
        self._turns[event.conversation] = event.turn
        return self._span_of_turn(event.conversation, event.turn)

    def _end_turn(self, event: TurnEnded | TurnInterrupted) -> str:
        self._turns.pop(event.conversation, None)
        return self._span_of_turn(event.conversation, event.turn)

    def _span_of_call(self, event: ToolCalled | ToolDetailed | ToolReturned) -> str:
        turn = self._turns.get(event.conversation)
        return span_id_of(self.trace_id, "call", event.conversation, turn or "", event.call)

    def _span_of_conversation(self, event: Event) -> str:
        name: str | None = event.conversation  # type: ignore[attr-defined]  # of types that have it
        turn = self._turns.get(name or "")
        if turn is not None:
            return self._span_of_turn(name or "", turn)
        return self._span_of_task(self._tasks.get(name or "", getattr(event, "task", None)))
