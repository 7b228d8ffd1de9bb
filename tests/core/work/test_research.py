"""A question that is asked twice is looked into once; its answer reaches whoever waits, and nobody else."""

import pytest

from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.inbox import InboxHandled
from holdfast.core.events.phase import PhaseCompleted, PhaseStarted, ResearchAnswered, ResearchRequested
from holdfast.core.events.task import TaskCompleted, TaskSkipped, TaskStarted
from holdfast.core.state import RunState
from holdfast.core.work.research import find_same_research
from tests.core.logs import fold_once, session_log

WORKER = ConversationOpened(conversation="w", agent="one", role="worker", task="A")
OTHER = ConversationOpened(conversation="x", agent="two", role="worker", task="A")
BESIDE = ConversationOpened(conversation="y", agent="one", role="worker", task="B")
PLANNER = ConversationOpened(conversation="p", agent="one", role="planner", about="planning")
QUESTION = "How does it hold on?"
ANSWER = ResearchAnswered(research="research-1", answer="by its root")
ANSWER_DELIVERED = [
    TurnStarted(conversation="w", turn="t", messages=["research-1"]),
    InboxHandled(message="research-1"),
]


def asked(by: str = "w") -> ResearchRequested:
    return ResearchRequested(research="research-1", conversation=by, topic="kelp", question=QUESTION)


ASKED: list[Event] = [TaskStarted(task_id="A"), TaskStarted(task_id="B"), WORKER, BESIDE, asked()]


def after(*events: Event) -> RunState:
    return fold_once(session_log(*events)).state


@pytest.mark.parametrize(
    ("more", "by", "question", "known"),
    [
        ([], "w", QUESTION, "research-1"),
        ([], "w", "how  does it\nhold on?", "research-1"),
        ([], "w", "How long does it hold on?", None),
        ([ANSWER], "w", QUESTION, "research-1"),
        ([], "y", QUESTION, None),
        ([OTHER], "x", QUESTION, "research-1"),
        ([ANSWER, OTHER], "x", QUESTION, None),
        ([], "nobody", QUESTION, None),
    ],
)
def test_a_question_is_known_to_whoever_asked_it(more: list[Event], by: str, question: str, known: str | None) -> None:
    assert find_same_research(after(*ASKED, *more), by, question) == known


def test_an_answer_that_was_delivered_is_delivered_again_when_it_is_asked_for_again() -> None:
    heard = [*ANSWER_DELIVERED, TurnEnded(conversation="w", turn="t", stop_reason="end_turn")]
    assert list(after(*ASKED, ANSWER).messages) == ["research-1"]
    assert list(after(*ASKED, ANSWER, *heard).messages) == []
    assert list(after(*ASKED, ANSWER, *heard, asked()).messages) == ["research-1"]
    cut = [*ANSWER_DELIVERED, TurnInterrupted(conversation="w", turn="t")]
    state = after(*ASKED, ANSWER, *cut, asked())
    assert (list(state.messages), list(state.conversations["w"].unheard)) == ([], ["research-1"])


def test_another_agent_takes_the_research_over() -> None:
    state = after(*ASKED, OTHER, asked(by="x"), ANSWER)
    assert state.research["research-1"].conversation == "x"
    assert [message.task for message in state.messages.values()] == ["A"]


@pytest.mark.parametrize("end", [TaskCompleted(task_id="A"), TaskSkipped(task_id="A")])
def test_nothing_waits_for_a_task_that_is_over(end: Event) -> None:
    assert after(*ASKED, ANSWER, end).messages == {}
    assert after(*ASKED, end, ANSWER).messages == {}


def test_nothing_waits_for_a_phase_that_is_over() -> None:
    begun: list[Event] = [PhaseStarted(phase="planning", round=1), PLANNER, asked(by="p")]
    end = PhaseCompleted(phase="planning", round=1, outcome="done")
    assert list(after(*begun, ANSWER).messages) == ["research-1"]
    assert after(*begun, ANSWER, end).messages == {}
    assert after(*begun, end, ANSWER).messages == {}
