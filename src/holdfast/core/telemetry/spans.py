"""Events become spans: run → phase → task → turn → tool call, with the attributes that OpenTelemetry names for agents.

The same events give the same spans with the same ids, whoever reads them: the runner while it works, or `export`
afterwards. A span is complete when its end is in the log; a turn that a death cut off ends with the next session.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationOpened,
    MessageRecorded,
    ToolCalled,
    ToolDetailed,
    ToolReturned,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.phase import PhaseCompleted, PhaseFailed, PhaseStarted
from holdfast.core.events.session import RunCreated, SessionEnd
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.telemetry.ids import span_id_of, trace_id_of
from holdfast.core.text.cut import cut

_MAX_CONTENT_CHARS = 8_000
_GOOD_STOPS = frozenset({"end_turn", "max_turn_requests", "max_tokens"})
_PAUSES = frozenset(  # the run goes on after these: its span stays open
    {
        *(EndReason.STOPPED, EndReason.INTERRUPTED, EndReason.WAITING, EndReason.IDLE, EndReason.PLANNED),
        *(EndReason.PARKED, EndReason.QUOTA, EndReason.OUTAGE, EndReason.DISK_SPACE, EndReason.DAY_BUDGET),
    }
)

Attributes = dict[str, str | int | float | bool]
OPEN = "holdfast.open"  # the attribute of a span that has not ended


class Span(msgspec.Struct):
    """`start` and `end` are times as events have them. `error` is why it failed; None if it did not."""

    span_id: str
    name: str
    start: str
    parent_id: str | None = None
    end: str | None = None
    attributes: Attributes = {}
    error: str | None = None


class SeenConversation(msgspec.Struct):
    agent: str | None = None
    role: str | None = None
    task: str | None = None
    about: str | None = None
    model: str | None = None
    turn: str | None = None


class UsageTotal(msgspec.Struct):
    """What an agent and model used since the run began."""

    agent: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    estimate: float = 0.0


class TraceState(msgspec.Struct):
    """All that is needed to go on after the last event that was read."""

    spans: dict[str, Span] = {}  # that are open, by id
    conversations: dict[str, SeenConversation] = {}
    phase: str | None = None
    usage: dict[str, UsageTotal] = {}
    began: str | None = None
    last: str | None = None


class SpanBuilder:
    """Takes the lines of a log in order. With `content`, spans also have what agents were told and did."""

    def __init__(self, run_id: str, state: TraceState | None = None, *, content: bool = False) -> None:
        self.trace_id = trace_id_of(run_id)
        self.state = state if state is not None else TraceState()
        self._run_id = run_id
        self._root = self._id("run")
        self._content = content
        self._finished: list[Span] = []
        self._time = ""

    def feed(self, data: bytes) -> list[Span]:
        """Take complete lines. Returns the spans that ended."""
        for raw in data.split(b"\n"):
            if not any(mark in raw for mark in _MARKS):
                continue
            line = parse(raw)
            if isinstance(line, Line) and line.type in _HANDLERS:
                self._take(line)
        finished, self._finished = self._finished, []
        return finished

    def finish(self) -> list[Span]:
        """End what is open at the last event, for an export of a run that does not work now."""
        for span_id in [*self.state.spans]:
            self._end(span_id, {OPEN: True})
        finished, self._finished = self._finished, []
        return finished

    def _take(self, line: Line) -> None:
        try:
            event = CODEC.event(line)
        except InvalidEventData:
            return
        if event is None:
            return
        self._time = self.state.last = line.ts or self.state.last or ""
        self.state.began = self.state.began or line.ts
        _HANDLERS[line.type](self, event)

    def _id(self, kind: str, *names: str) -> str:
        return span_id_of(self.trace_id, kind, *names)

    def _begin(self, span_id: str, name: str, parent_id: str | None, attributes: Mapping[str, Any]) -> None:
        known = {key: value for key, value in attributes.items() if value is not None}
        self.state.spans.setdefault(span_id, Span(span_id, name, self._time, parent_id, attributes=known))

    def _end(self, span_id: str, attributes: Mapping[str, Any], error: str | None = None) -> None:
        span = self.state.spans.pop(span_id, None)
        if span is not None:
            span.end, span.error = self._time or self.state.last, error
            span.attributes |= {key: value for key, value in attributes.items() if value is not None}
            self._finished.append(span)

    # Runs, phases, tasks

    def run_created(self, event: RunCreated) -> None:
        goal = cut(event.goal, _MAX_CONTENT_CHARS) if self._content else None
        about = {"holdfast.run.id": self._run_id, "holdfast.workflow": event.workflow, "holdfast.goal": goal}
        self._begin(self._root, f"run {event.workflow}", None, about)

    def session_ended(self, event: SessionEnd) -> None:
        if event.reason is None or event.reason in _PAUSES:
            return
        error = None if event.reason == EndReason.ALL_DONE else event.reason
        self._end(self._root, {"holdfast.end_reason": event.reason}, error)

    def phase_started(self, event: PhaseStarted) -> None:
        self.state.phase = event.phase
        about = {"holdfast.phase": event.phase, "holdfast.round": event.round}
        self._begin(self._id("phase", event.phase), f"phase {event.phase}", self._root, about)

    def phase_ended(self, event: PhaseCompleted | PhaseFailed) -> None:
        error = event.reason if isinstance(event, PhaseFailed) else None
        self._end(self._id("phase", event.phase), {"holdfast.outcome": getattr(event, "outcome", "failed")}, error)
        self.state.phase = None if self.state.phase == event.phase else self.state.phase

    def task_started(self, event: TaskStarted) -> None:
        phase = self._id("phase", self.state.phase) if self.state.phase is not None else self._root
        task_id = str(event.task_id)
        self._begin(self._id("task", task_id), f"task {task_id}", phase, {"holdfast.task.id": task_id})

    def task_ended(self, event: TaskCompleted | TaskFailed | TaskSkipped) -> None:
        error = (event.error or "failed") if isinstance(event, TaskFailed) else None
        self._end(self._id("task", str(event.task_id)), {"holdfast.outcome": event.type.partition(".")[2]}, error)

    # Conversations

    def conversation_opened(self, event: ConversationOpened) -> None:
        task = str(event.task) if event.task is not None else None
        self.state.conversations[event.conversation] = SeenConversation(event.agent, event.role, task, event.about)

    def agent_attached(self, event: ConversationAttached) -> None:
        seen = self.state.conversations.get(event.conversation)
        if seen is not None:
            seen.model = event.model or seen.model

    def turn_started(self, event: TurnStarted) -> None:
        seen = self.state.conversations.setdefault(event.conversation, SeenConversation())
        seen.turn = event.turn
        parent = self._root
        if seen.task is not None and self._id("task", seen.task) in self.state.spans:
            parent = self._id("task", seen.task)
        elif seen.about is not None and self._id("phase", seen.about) in self.state.spans:
            parent = self._id("phase", seen.about)
        agent = _plain_agent(seen.agent)
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": event.conversation,
            "gen_ai.request.model": seen.model,
            "holdfast.role": seen.role,
            "holdfast.task.id": seen.task,
        }
        self._begin(self._id("turn", event.conversation, event.turn), f"invoke_agent {agent}", parent, about)

    def turn_ended(self, event: TurnEnded | TurnInterrupted) -> None:
        seen = self.state.conversations.setdefault(event.conversation, SeenConversation())
        seen.turn = None
        interrupted = isinstance(event, TurnInterrupted)
        stop = "interrupted" if interrupted else getattr(event, "stop_reason", None)
        error = None if stop in _GOOD_STOPS or stop is None else stop
        turn = self._id("turn", event.conversation, event.turn)
        for call in [each.span_id for each in self.state.spans.values() if each.parent_id == turn]:
            self._end(call, {"holdfast.tool.status": "interrupted"}, "interrupted")
        self._end(self._id("turn", event.conversation, event.turn), {"gen_ai.response.finish_reason": stop}, error)

    def message(self, event: MessageRecorded) -> None:
        if not self._content or event.turn is None:
            return
        span = self.state.spans.get(self._id("turn", event.conversation, event.turn))
        name = {"agent": "gen_ai.output.messages", "user": "gen_ai.input.messages"}.get(event.speaker)
        if span is not None and name is not None:
            span.attributes[name] = cut(str(span.attributes.get(name, "")) + event.text, _MAX_CONTENT_CHARS)

    def used(self, event: UsageRecorded) -> None:
        seen = self.state.conversations.get(event.conversation or "", SeenConversation())
        agent, model = _plain_agent(seen.agent), seen.model or "unknown"
        total = self.state.usage.setdefault(f"{agent} {model}", UsageTotal(agent, model))
        total.input_tokens += event.input_tokens
        total.output_tokens += event.output_tokens
        total.dollars += event.dollars
        total.estimate += event.estimate or 0.0
        span = self.state.spans.get(self._id("turn", event.conversation or "", seen.turn or ""))
        if span is None:
            return
        for name, amount in (
            ("gen_ai.usage.input_tokens", event.input_tokens),
            ("gen_ai.usage.output_tokens", event.output_tokens),
            ("holdfast.cost.usd", event.dollars if event.priced or event.dollars else None),
            ("holdfast.cost.estimate.usd", event.estimate),
        ):
            if amount is not None:
                before = span.attributes.get(name, 0)
                span.attributes[name] = (before if isinstance(before, int | float) else 0) + amount

    # Tool calls

    def tool_called(self, event: ToolCalled) -> None:
        seen = self.state.conversations.setdefault(event.conversation, SeenConversation())
        turn = seen.turn or ""
        name = event.kind or "tool"
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": event.call,
            "gen_ai.conversation.id": event.conversation,
            "gen_ai.tool.description": event.tool if self._content else None,
        }
        span_id = self._id("call", event.conversation, turn, event.call)
        self._begin(span_id, f"execute_tool {name}", self._id("turn", event.conversation, turn), about)
        self.tool_detailed(event)

    def tool_detailed(self, event: ToolCalled | ToolDetailed) -> None:
        span = self._call(event)
        if self._content and span is not None:
            span.attributes["gen_ai.tool.call.arguments"] = cut(
                bytes(event.input).decode(errors="replace"), _MAX_CONTENT_CHARS
            )

    def tool_returned(self, event: ToolReturned) -> None:
        span = self._call(event)
        if span is not None:
            error = None if event.status == "completed" else event.status
            self._end(span.span_id, {"holdfast.tool.status": event.status}, error)

    def _call(self, event: ToolCalled | ToolDetailed | ToolReturned) -> Span | None:
        seen = self.state.conversations.get(event.conversation, SeenConversation())
        return self.state.spans.get(self._id("call", event.conversation, seen.turn or "", event.call))


def _plain_agent(agent: str | None) -> str:
    """The name of an agent without its arguments, which may be a path."""
    return (agent or "agent").split()[0].partition(":")[0]


_ON: Mapping[type[Event], Callable[[SpanBuilder, Any], None]] = {
    RunCreated: SpanBuilder.run_created,
    SessionEnd: SpanBuilder.session_ended,
    PhaseStarted: SpanBuilder.phase_started,
    PhaseCompleted: SpanBuilder.phase_ended,
    PhaseFailed: SpanBuilder.phase_ended,
    TaskStarted: SpanBuilder.task_started,
    TaskCompleted: SpanBuilder.task_ended,
    TaskFailed: SpanBuilder.task_ended,
    TaskSkipped: SpanBuilder.task_ended,
    ConversationOpened: SpanBuilder.conversation_opened,
    ConversationAttached: SpanBuilder.agent_attached,
    TurnStarted: SpanBuilder.turn_started,
    TurnEnded: SpanBuilder.turn_ended,
    TurnInterrupted: SpanBuilder.turn_ended,
    MessageRecorded: SpanBuilder.message,
    UsageRecorded: SpanBuilder.used,
    ToolCalled: SpanBuilder.tool_called,
    ToolDetailed: SpanBuilder.tool_detailed,
    ToolReturned: SpanBuilder.tool_returned,
}
_HANDLERS = {kind.type: handler for kind, handler in _ON.items()}
_MARKS = tuple(f'"type":"{name}"'.encode() for name in _HANDLERS)
