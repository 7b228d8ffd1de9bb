"""Words in a turn that did not come to its end stay with whoever is to hear them."""

import pytest
from msgspec import Raw

from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.issue import BlockerReported
from holdfast.core.events.phase import PhaseDelivered, PhaseReopened, PhaseStarted
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.task import TaskCompleted, TaskFailed, TaskSkipped, TaskStarted
from holdfast.core.events.work import CaseSubmitted
from holdfast.core.state import RunState
from tests.core.logs import fold_once, session_log


def sent(*names: str) -> list[Event]:
    body = Raw(b'{"text":"hello"}')
    return [InboxConsumed(cursor=at, message=name, kind="user", body=body) for at, name in enumerate(names, 1)]


def turn_with(*names: str, by: str = "c") -> list[Event]:
    turn = TurnStarted(conversation=by, turn="t", messages=list(names))
    return [turn, *(InboxHandled(message=name) for name in names)]


def ended(reason: str) -> Event:
    return TurnEnded(conversation="c", turn="t", stop_reason=reason)


CUT = TurnInterrupted(conversation="c", turn="t")
TASK = TaskStarted(task_id="A")
TWO = PlanCreated(tasks=[PlannedTask(id="A"), PlannedTask(id="B")])
WORKER = ConversationOpened(conversation="c", agent="one", role="worker", task="A")
OTHER = ConversationOpened(conversation="d", agent="two", role="worker", task="A")
PHASE = PhaseStarted(phase="thinking", round=1)
THINKER = ConversationOpened(conversation="c", agent="one", role="thinker", about="thinking")

AT_WORK = [TASK, WORKER, *sent("m"), *turn_with("m")]
THINKING = [PHASE, THINKER, *sent("m"), *turn_with("m")]


def after(*events: Event) -> RunState:
    return fold_once(session_log(*events)).state


def unheard(state: RunState) -> dict[str, list[str]]:
    return {
        name: list(conversation.unheard) for name, conversation in state.conversations.items() if conversation.unheard
    }


@pytest.mark.parametrize("end", [CUT, ended("refused"), ended("refusal"), ended("cancelled")])
def test_they_are_kept_with_the_conversation_that_goes_on(end: Event) -> None:
    state = after(*AT_WORK, end)
    assert (unheard(state), list(state.messages)) == ({"c": ["m"]}, [])
    assert not state.conversations["c"].briefed
    state = after(*AT_WORK, end, *sent("n"), *turn_with("n"))
    assert unheard(state) == {"c": ["m", "n"]}


@pytest.mark.parametrize("end", [[ended("end_turn")], [ended("max_tokens")], [CUT, *turn_with(), ended("end_turn")]])
def test_a_turn_that_came_to_its_end_is_heard(end: list[Event]) -> None:
    state = after(*AT_WORK, *end)
    assert (unheard(state), list(state.messages)) == ({}, [])
    assert state.conversations["c"].briefed


@pytest.mark.parametrize(
    "events",
    [
        [*AT_WORK, CaseSubmitted(task_id="A", iteration=1)],
        [*AT_WORK, BlockerReported(task_id="A", description="no key")],
        [*THINKING, PhaseDelivered(phase="thinking", round=1, tool="submit_document")],
    ],
)
def test_who_has_done_what_it_was_told_has_heard_it(events: list[Event]) -> None:
    state = after(*events, CUT)
    assert (unheard(state), list(state.messages)) == ({}, [])
    assert state.conversations["c"].briefed


@pytest.mark.parametrize(
    ("events", "other"),
    [(AT_WORK, OTHER), (THINKING, ConversationOpened(conversation="d", agent="b", role="thinker", about="thinking"))],
)
def test_they_are_for_the_other_that_takes_its_place(events: list[Event], other: Event) -> None:
    state = after(*events, CUT, other)
    assert (unheard(state), list(state.messages)) == ({"d": ["m"]}, [])


@pytest.mark.parametrize(
    ("events", "gone"),
    [
        ([TWO, *AT_WORK], TaskSkipped(task_id="A")),
        (AT_WORK, PlanCreated(tasks=[PlannedTask(id="B")])),
        (THINKING, PhaseStarted(phase="planning", round=1)),
        (THINKING, PhaseStarted(phase="thinking", round=2)),
        (THINKING, PhaseReopened(phase="thinking")),
    ],
)
def test_where_nobody_takes_its_place_they_are_open_again_before_what_came_later(
    events: list[Event], gone: Event
) -> None:
    state = after(*events, CUT, *sent("n"), gone)
    assert (unheard(state), list(state.messages)) == ({}, ["m", "n"])


@pytest.mark.parametrize(
    "others",
    [[TaskStarted(task_id="B"), TaskCompleted(task_id="B")], [TaskSkipped(task_id="B")], [TaskFailed(task_id="B")]],
)
def test_what_was_finished_or_given_up_is_not_opened_again_by_what_a_skipped_task_was_told(others: list[Event]) -> None:
    state = after(TWO, *AT_WORK, CUT, *others, TaskSkipped(task_id="A"))
    assert (unheard(state), list(state.messages)) == ({}, [])


@pytest.mark.parametrize("gone", [TaskSkipped(task_id="A"), PlanCreated(tasks=[PlannedTask(id="B")])])
def test_what_was_for_a_task_alone_is_over_with_it(gone: Event) -> None:
    own = InboxConsumed(cursor=1, message="m", kind="user", body=Raw(b'{"text":"hello","task":"A"}'))
    state = after(TWO, TASK, WORKER, own, *turn_with("m"), CUT, gone)
    assert (unheard(state), list(state.messages)) == ({}, [])
