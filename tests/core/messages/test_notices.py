"""What a worker cannot know stays with its task until a turn that was told of it came to its end."""

import pytest

from holdfast.core.events import Event
from holdfast.core.events.branch import WorkspaceReconciled
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.plan import PlanCreated, PlannedTask
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.events.work import CaseSubmitted
from holdfast.core.task_state import Task
from tests.core.logs import fold_once, session_log


def planned(words: str, key: str | None = None) -> PlanCreated:
    return PlanCreated(tasks=[PlannedTask(id="A", summary="make A", description=words, key=key or words)])


def turn(*notices: str) -> TurnStarted:
    return TurnStarted(conversation="w", turn="t", notices=list(notices))


def lost(message: str = "gone", subject: str = "tasks/A", action: str = "recreate worktree") -> WorkspaceReconciled:
    return WorkspaceReconciled(subject=subject, action=action, message=message, task="A")


ENDED = TurnEnded(conversation="w", turn="t", stop_reason="end_turn")
CUT = TurnInterrupted(conversation="w", turn="t")
REFUSED = TurnEnded(conversation="w", turn="t", stop_reason="refused")
WORKER = ConversationOpened(conversation="w", agent="one", role="worker", task="A")
OTHER = ConversationOpened(conversation="x", agent="two", role="worker", task="A")
BEFORE_THE_TURN = [planned("old"), TaskStarted(task_id="A"), WORKER]
AT_WORK = [*BEFORE_THE_TURN, turn(), CUT]


def task_after(*events: Event) -> Task:
    return fold_once(session_log(*events)).state.tasks["A"]


def losses(*events: Event) -> list[str]:
    return [loss.text for loss in task_after(*events).losses.values()]


def key_of(*events: Event) -> str:
    (key,) = task_after(*events).losses
    return key


@pytest.mark.parametrize(
    ("events", "before"),
    [
        ([*AT_WORK, planned("new")], "make A\n\nold"),
        ([*AT_WORK, planned("new"), planned("newer")], "make A\n\nold"),
        ([*AT_WORK, planned("new"), planned("old")], None),
        ([*AT_WORK, planned("old", key="other dependencies")], None),
        ([*BEFORE_THE_TURN, planned("new")], None),
        ([*AT_WORK, planned("new"), turn("task new"), CUT], "make A\n\nold"),
        ([*AT_WORK, planned("new"), turn("task new"), REFUSED], "make A\n\nold"),
        ([*AT_WORK, planned("new"), turn("task new"), ENDED], None),
        ([*AT_WORK, planned("new"), turn("task new"), ENDED, planned("newer")], "make A\n\nnew"),
        ([*AT_WORK, planned("new"), turn("task new"), CUT, planned("newer"), turn("task newer"), ENDED], None),
        ([*AT_WORK, planned("new"), OTHER], "make A\n\nold"),
        ([*AT_WORK, planned("new"), TaskCompleted(task_id="A")], None),
    ],
)
def test_a_task_that_changed_is_known_as_it_was_told(events: list[Event], before: str | None) -> None:
    assert task_after(*events).before == before


def test_a_loss_is_told_once_and_not_before_its_turn_ended() -> None:
    known = [*AT_WORK, lost()]
    key = key_of(*known)
    assert losses(*known, turn(key), CUT) == ["gone"]
    assert losses(*known, turn(key), ENDED) == []
    assert losses(*known, turn(key), CUT, turn(), ENDED) == [], "the agent heard all that its turns were told"
    assert losses(*known, turn(key), CaseSubmitted(task_id="A", iteration=1)) == []
    assert losses(*known, turn(key), CUT, CaseSubmitted(task_id="A", iteration=1)) == []


def test_the_same_subject_lost_again_is_another_notice() -> None:
    known = [*AT_WORK, lost()]
    assert losses(*known, lost("gone twice"), lost("too", "b", "recreate branch")) == ["gone twice", "too"]
    assert losses(*known, turn(key_of(*known)), CUT, lost("gone twice"), turn(), ENDED) == ["gone twice"]


def test_nobody_is_told_of_what_took_nothing_from_them() -> None:
    assert losses(*AT_WORK, lost(action="remove worktree")) == []
    assert losses(*BEFORE_THE_TURN, lost()) == []
    assert losses(*AT_WORK, lost(), TaskCompleted(task_id="A")) == []
