"""Every event has the run's trace id and the span of what it is about, the same for whoever computes it."""

import re

from holdfast.core.events.conversation import (
    ConversationOpened,
    MessageRecorded,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
)
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskStarted
from holdfast.core.state import Conversation, OpenTurn, RunState
from holdfast.core.telemetry.ids import TraceIds, span_id_of, trace_id_of


def test_ids_have_the_form_of_w3c_trace_context() -> None:
    ids = TraceIds("auth-abc234", RunState())
    assert re.fullmatch(r"[0-9a-f]{32}", ids.trace_id)
    assert re.fullmatch(r"[0-9a-f]{16}", ids.span_of(SessionEnd()))
    assert ids.trace_id == trace_id_of("auth-abc234") != trace_id_of("auth-abc235")


def test_span_is_that_of_the_call_the_turn_the_task_or_the_run() -> None:
    ids = TraceIds("r", RunState())
    trace = ids.trace_id
    run, task = span_id_of(trace, "run"), span_id_of(trace, "task", "T-1")
    turn, call = span_id_of(trace, "turn", "c", "t1"), span_id_of(trace, "call", "c", "t1", "x")
    said = MessageRecorded(conversation="c", speaker="agent", text="hi")
    assert [
        ids.span_of(event)
        for event in (
            TaskStarted(task_id="T-1"),
            ConversationOpened(conversation="c", task="T-1"),
            said,
            TurnStarted(conversation="c", turn="t1"),
            said,
            ToolCalled(conversation="c", call="x", tool="ls"),
            ToolReturned(conversation="c", call="x"),
            TurnEnded(conversation="c", turn="t1"),
            said,
            SessionEnd(),
        )
    ] == [task, task, task, turn, turn, call, call, turn, task, run]


def test_ids_continue_from_a_state() -> None:
    conversation = Conversation(task="T-1", turn=OpenTurn("t1"))
    ids = TraceIds("r", RunState(conversations={"c": conversation}))
    returned = ToolReturned(conversation="c", call="x", status="interrupted")
    assert ids.span_of(returned) == span_id_of(ids.trace_id, "call", "c", "t1", "x")
