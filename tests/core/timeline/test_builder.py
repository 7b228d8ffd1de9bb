"""The picture of a run: what it shows of a log, and that it is the same however the log was read."""

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.core.events import Event
from holdfast.core.events.agent import AgentDied, AgentSpawned
from holdfast.core.events.base import Envelope
from holdfast.core.events.branch import BranchCreated, BranchMerged
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.conversation import (
    ConversationAttached,
    ConversationOpened,
    MessageRecorded,
    TurnEnded,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.core.events.phase import PhaseStarted
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.core.events.work import ValidationFinished, ValidationStarted, VerdictGiven
from holdfast.core.log.codec import encode
from holdfast.core.state import RunState
from holdfast.core.text.moment import format_moment
from holdfast.core.timeline.builder import TimelineBuilder
from holdfast.core.timeline.canvas import MAX_SPANS
from holdfast.core.timeline.shapes import LaneKind, SpanKind, SpanOutcome, Timeline

START_S = 1_770_000_000
TURN = TurnStarted(conversation="c", turn="t1")
SAID = MessageRecorded(conversation="c", speaker="agent", text="hello")
OPENED = (
    ConversationOpened(conversation="c", agent="playbook:/x/book.json", role="worker", task="T-1"),
    ConversationAttached(conversation="c", rung="fresh"),
    AgentSpawned(name="worker of T-1", task="T-1"),
)


def log(*events: Event, step_s: float = 1) -> bytes:
    """One line a second."""
    lines = [
        encode(Envelope(ts=format_moment(START_S + number * step_s), sid="s", seq=number, type=event.type, data=event))
        for number, event in enumerate(events)
    ]
    return b"".join(line + b"\n" for line in lines)


def picture(*events: Event, running: bool = False) -> Timeline:
    return drawn([log(*events)], running=running)


def drawn(parts: Sequence[bytes], *, running: bool = False) -> Timeline:
    builder = TimelineBuilder()
    for part in parts:
        builder.feed(part, builder.position)
    return builder.picture("run-1", RunState(), "done", running=running, now_ms=(START_S + 3_600) * 1000)


def after(moment: int | None) -> int | None:
    """Seconds since the start."""
    return None if moment is None else moment // 1000 - START_S


def test_session_that_was_killed_ends_at_its_last_sign_of_life() -> None:
    """Also when that is a line that draws nothing; what was open in it is interrupted."""
    found = picture(
        SessionStart(),
        *OPENED,
        TURN,
        SAID,
        SessionStart(command="resume"),
        TurnInterrupted(conversation="c", turn="t1"),
        AgentDied(name="worker of T-1", reason="the session died, and its agents with it"),
        ConversationAttached(conversation="c", rung="session/load"),
        SessionEnd(reason="all_done"),
    )
    first, second = found.sessions
    assert (first.outcome, after(first.end)) == ("killed", 5)
    assert (second.outcome, after(second.end)) == ("ended", 10)
    (lane,) = found.lanes
    assert (lane.id, lane.kind) == ("T-1", LaneKind.TASK)
    (turn,) = lane.spans
    assert (after(turn.start), after(turn.end), turn.outcome) == (4, 5, SpanOutcome.INTERRUPTED)
    assert [mark.kind for mark in lane.marks] == ["resume"]
    assert [(death.what, after(death.at), death.lane) for death in found.deaths] == [("runner", 5, None)]


def test_death_of_an_agent_is_on_its_lane() -> None:
    found = picture(
        SessionStart(),
        *OPENED,
        TURN,
        TurnInterrupted(conversation="c", turn="t1"),
        AgentDied(name="worker of T-1", reason="killed"),
        running=True,
    )
    (death,) = found.deaths
    assert (death.what, death.lane, death.text) == ("agent", "T-1", "worker of T-1: killed")
    assert found.sessions[0].outcome == "running"
    assert after(found.end) == 3_600


def test_work_of_a_task_is_in_its_lane() -> None:
    found = picture(
        SessionStart(),
        BranchCreated(name="holdfast/run-1/T-1", task="T-1"),
        *OPENED,
        TURN,
        TurnEnded(conversation="c", turn="t1", stop_reason="end_turn"),
        ValidationStarted(task_id="T-1"),
        ValidationFinished(task_id="T-1", passed=False, failed=["pytest"]),
        VerdictGiven(task_id="T-1", iteration=1, accept=False, concern="untested"),
        BranchMerged(name="holdfast/run-1/T-1", target="main"),
        TaskCompleted(task_id="T-1"),
    )
    (lane,) = found.lanes
    assert [(span.kind, span.outcome, span.label) for span in lane.spans] == [
        (SpanKind.TURN, SpanOutcome.OK, "playbook (worker)"),
        (SpanKind.CHECK, SpanOutcome.FAILED, "checks failed: pytest"),
    ]
    assert [(mark.kind, mark.good) for mark in lane.marks] == [
        ("verdict", False),
        ("merge", True),
        ("completed", True),
    ]
    assert found.lanes[0].marks[0].label == "rejected: untested"


def test_spending_adds_up_and_an_unknown_cost_stays_unknown() -> None:
    usage = UsageRecorded(input_tokens=100, output_tokens=10)
    found = picture(SessionStart(), usage, usage, UsageRecorded(input_tokens=1, dollars=0.5, priced=True))
    assert [(point.tokens, point.dollars) for point in found.spend] == [(110, None), (220, None), (221, 0.5)]


@pytest.mark.parametrize("count", [3, 7_000, 21_000])
def test_many_spans_are_few(count: int) -> None:
    """None is lost: those that are drawn as one are counted. The spending stays small, too."""
    turns = [
        event
        for number in range(count)
        for event in (
            TurnStarted(conversation="c", turn=f"t{number}"),
            TurnEnded(conversation="c", turn=f"t{number}", stop_reason="end_turn"),
            UsageRecorded(output_tokens=1),
        )
    ]
    found = picture(SessionStart(), *OPENED, *turns)
    (lane,) = found.lanes
    assert len(lane.spans) <= MAX_SPANS
    assert sum(span.count for span in lane.spans) == count
    assert len(found.spend) <= 801
    assert (found.spend[-1].tokens, found.truncated) == (count, count > MAX_SPANS)


def test_night_between_two_sessions_is_idle() -> None:
    sessions = [SessionStart(), SessionEnd(reason="stopped"), SessionStart(command="resume"), SessionEnd()]
    found = drawn([log(*sessions, step_s=100)])
    assert [(after(period.start), after(period.end)) for period in found.idle] == [(100, 200)]
    assert [session.reason_text for session in found.sessions] == ["stopped on request", None]


def test_end_that_comes_late_is_no_death() -> None:
    """The owner was gone when somebody looked, but its last line had not been read yet."""
    builder = TimelineBuilder()
    whole = log(SessionStart(), *OPENED, TURN, TurnEnded(conversation="c", turn="t1"), SessionEnd(reason="stopped"))
    cut = whole.rfind(b"\n", 0, len(whole) - 1) + 1
    builder.feed(whole[:cut], 0)
    early = builder.picture("run-1", RunState(), "interrupted", running=False, now_ms=0)
    assert [death.what for death in early.deaths] == ["runner"]
    builder.feed(whole[cut:], cut)
    late = builder.picture("run-1", RunState(), "stopped", running=False, now_ms=0)
    assert (late.deaths, late.sessions[0].outcome) == ([], "ended")


def test_picture_does_not_depend_on_how_the_log_was_read() -> None:
    data = log(
        SessionStart(), *OPENED, TURN, SAID, SessionStart(command="resume"), PhaseStarted(phase="plan", round=1), SAID
    )
    lines = data.splitlines(keepends=True)
    assert msgspec.to_builtins(drawn(lines)) == msgspec.to_builtins(drawn([data]))


def test_lines_of_other_tools_and_damage_are_no_obstacle() -> None:
    odd = b'{"type":"task.completed","sid":"s","seq":1,"data":{"taskId":7}}\nnonsense\n\n{"v":1}\n'
    found = drawn([odd])
    assert [(lane.id, lane.kind) for lane in found.lanes] == [("7", LaneKind.TASK)]


def test_phase_and_task_of_one_name_have_two_lanes() -> None:
    found = picture(SessionStart(), PhaseStarted(phase="T-1", round=1), TaskCompleted(task_id="T-1"))
    assert [lane.id for lane in found.lanes] == ["phase T-1", "T-1"]
